package holdline.miop;

import java.io.IOException;

/**
 * Keeps one record of a few KiB for a device: the session, the last acknowledged ids, Reports that
 * wait, heartbeats. Keep it as secret as the device's other secrets.
 *
 * <p>A push is acknowledged after {@link #save} has returned. So if the record survives a crash, no
 * push is handed out again that was acknowledged before it, and no Report is lost. The client calls
 * one method at a time.
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
