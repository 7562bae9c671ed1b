package holdline.im;

import dev.holdline.im.v1.ServerFrame;

/** By which number an answer belongs to its request. */
final class Numbers {
    private Numbers() {}

    /** The number of an answer; 0: it answers nothing. */
    static int of(ServerFrame frame) {
        switch (frame.getAnswerCase()) {
            case SENT:
                return frame.getSent().getNumber();
            case FAILED:
                return frame.getFailed().getNumber();
            case PAGE:
                return frame.getPage().getNumber();
            case HISTORY:
                return frame.getHistory().getNumber();
            case CHANGED:
                return frame.getChanged().getNumber();
            case MEMBERS:
                return frame.getMembers().getNumber();
            case MARKED_READ:
                return frame.getMarkedRead().getNumber();
            case SET:
                return frame.getSet().getNumber();
            case CONVERSATIONS:
                return frame.getConversations().getNumber();
            case CONTACTS:
                return frame.getContacts().getNumber();
            case DONE:
                return frame.getDone().getNumber();
            case FOUND:
                return frame.getFound().getNumber();
            case UPLOAD:
                return frame.getUpload().getNumber();
            case PUSH_STATUS:
                return frame.getPushStatus().getNumber();
            case PUSH_CODE:
                return frame.getPushCode().getNumber();
            case READERS:
                return frame.getReaders().getNumber();
            case PRIVACY:
                return frame.getPrivacy().getNumber();
            case CHATROOM_JOINED:
                return frame.getChatroomJoined().getNumber();
            case TOKEN:
                return frame.getToken().getNumber();
            default:
                return 0;
        }
    }
}
