package holdline.miop;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Arrays;
import java.util.function.Consumer;

/** A server that a test plays by hand, and a client of it. */
final class Script implements AutoCloseable {
    private final ServerSocket listener;
    private Socket socket;
    private Bytes in = new Bytes();
    final HandClock clock = new HandClock(0);
    final Client client;

    Script(Consumer<ClientBuilder> change) throws IOException {
        listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        listener.setSoTimeout(60_000);
        String address = "127.0.0.1:" + listener.getLocalPort();
        ClientBuilder builder = Client.builder(address, "demo", "dev-1").clock(clock)
            .onPush(push -> {});
        change.accept(builder);
        client = builder.build().start();
    }

    void bind() throws Exception {
        socket = listener.accept();
        socket.setSoTimeout(60_000);
        in = new Bytes();
        expect(Frame.BIND);
        send(new Frame(Frame.BIND_ACK, new Properties().add(Properties.HEARTBEAT, 300)
            .add(Properties.RESUME_TOKEN, new byte[32]).add(Properties.SESSION_EPOCH, 1)
            .add(Properties.RESULT, 0)));
    }

    void send(Frame frame) throws IOException {
        socket.getOutputStream().write(frame.write());
    }

    void push(long id) throws IOException {
        Frame frame = new Frame(Frame.MSG);
        frame.payload = new Bytes().number(id, 8).number(1, 4).octet(0).number(0, 4)
            .block(new byte[0]).block(new byte[] {'h', 'i'}).toArray();
        send(frame);
    }

    void expect(int opcode) throws Exception {
        Frame frame = next();
        Tests.check(frame.opcode == opcode, "not opcode " + opcode + " but " + frame.opcode);
    }

    Frame next() throws Exception {
        byte[] buffer = new byte[4_096];
        Frame frame = Frame.read(in.reader(), Frame.BYTES_DEFAULT);
        while (frame == null) {
            int count = socket.getInputStream().read(buffer);
            Tests.check(count > 0, "the connection is closed");
            in.add(Arrays.copyOf(buffer, count));
            frame = Frame.read(in.reader(), Frame.BYTES_DEFAULT);
        }
        in.drop(frame.length);
        return frame;
    }

    @Override
    public void close() throws IOException {
        client.kill();
        listener.close();
        if (socket != null) {
            socket.close();
        }
    }
}
