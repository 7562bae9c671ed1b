package holdline.im;

import java.io.IOException;

/**
 * Keeps one record for a device: its place in the inbox, and messages that wait to be sent.
 *
 * <p>A message is sent, and an entry acknowledged, after {@link #save} has returned. So if the record
 * survives a crash, no message is lost, and no entry is handed out again that was acknowledged
 * before it. The client calls one method at a time.
 */
public interface Store {
    /** What was saved last; null: nothing. */
    byte[] load() throws IOException;

    /** Stores the record so that it survives a crash. */
    void save(byte[] record) throws IOException;

    /** A store that lasts as long as the process. */
    static Store inMemory() {
        return new Store() {
            private byte[] record;

            @Override
            public synchronized byte[] load() {
                return record;
            }

            @Override
            public synchronized void save(byte[] saved) {
                record = saved;
            }
        };
    }
}
