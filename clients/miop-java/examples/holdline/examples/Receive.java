package holdline.examples;

import holdline.miop.Client;
import holdline.miop.FileStore;
import holdline.miop.MiopException;
import holdline.miop.Push;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/**
 * Keeps pushes in a file of its own before it acknowledges them, reports what it has done, and says
 * good-bye when it is interrupted. Arguments: HOST:PORT PRODUCT DEVICE FILE.
 */
public final class Receive {
    private final FileOutputStream file;
    private final Client client;

    private Receive(String[] words) throws IOException {
        file = new FileOutputStream(words[3], true);
        client = Client.builder(words[0], words[1], words[2])
            .store(new FileStore(new File(words[3] + ".state")))
            .manualAck()
            .onPush(this::keep)
            .onState(state -> System.out.println(state))
            .onStored(id -> System.out.println("the server has Report " + id))
            .build();
    }

    /** Writes the push to the disk, and only then acknowledges it. An exception rejects it. */
    private void keep(Push push) throws IOException, MiopException {
        String id = Long.toUnsignedString(push.id());
        file.write((id + " " + push.text() + "\n").getBytes(StandardCharsets.UTF_8));
        file.getFD().sync();
        client.acknowledge(push.id());
        // The id of the push is that of the Report, so it is not reported twice.
        client.report(id, "stored".getBytes(StandardCharsets.UTF_8));
    }

    /** Runs until it is interrupted, or the server ends it for good. */
    public static void main(String[] words) throws Exception {
        Receive receive = new Receive(words);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            receive.client.close();
            try {
                receive.client.await();
            } catch (InterruptedException stopped) {
                // Then without a good-bye.
            }
        }));
        System.out.println(receive.client.start().await());
    }
}
