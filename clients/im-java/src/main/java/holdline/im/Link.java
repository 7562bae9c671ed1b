package holdline.im;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.Socket;

/**
 * A connection that writes from a thread of its own, so that a slow network holds up nobody. What
 * waits is bounded by what a machine sends: a window of requests and messages.
 */
final class Link {
    /** How long a connection that is to be closed may take to send what was written. */
    private static final long FAREWELL_MS = 5_000;

    private final Socket socket;
    private ByteArrayOutputStream waiting = new ByteArrayOutputStream();
    private boolean isBusy;
    /** After what waits. */
    private boolean isOver;
    private boolean isDead;

    Link(Socket socket) {
        this.socket = socket;
        Thread thread = new Thread(this::run, "im-writer");
        thread.setDaemon(true);
        thread.start();
    }

    int read(byte[] buffer) throws IOException {
        return socket.getInputStream().read(buffer);
    }

    synchronized void write(byte[] bytes) {
        if (!isOver && !isDead) {
            waiting.write(bytes, 0, bytes.length);
            notifyAll();
        }
    }

    /** Ends the connection when what waits is sent. */
    synchronized void close() {
        if (!isOver && !isDead) {
            isOver = true;
            notifyAll();
            if (isBusy || waiting.size() > 0) {
                Thread guard = new Thread(this::guard, "im-farewell");
                guard.setDaemon(true);
                guard.start();
            }
        }
    }

    /** Ends it at once. */
    synchronized void abort() {
        isDead = true;
        notifyAll();
        closeSocket();
    }

    /** Waits until everything was handed to the system, or cannot be. */
    synchronized void drain() throws InterruptedException {
        while (!isDead && (isBusy || isOver || waiting.size() > 0)) {
            wait();
        }
    }

    private synchronized void guard() {
        try {
            long until = System.nanoTime() + FAREWELL_MS * 1_000_000;
            for (long left = FAREWELL_MS; !isDead && left > 0;
                left = (until - System.nanoTime()) / 1_000_000) {
                wait(left);
            }
        } catch (InterruptedException stopped) {
            // Then it ends now.
        }
        abort();
    }

    private void run() {
        try {
            for (byte[] next = next(); next != null; next = next()) {
                socket.getOutputStream().write(next);
                socket.getOutputStream().flush();
            }
        } catch (IOException | InterruptedException broken) {
            // The reader learns it, too.
        }
        abort();
    }

    private synchronized byte[] next() throws InterruptedException {
        isBusy = false;
        notifyAll();
        while (waiting.size() == 0 && !isOver && !isDead) {
            wait();
        }
        if (isDead || waiting.size() == 0) {
            return null;
        }
        byte[] bytes = waiting.toByteArray();
        waiting = new ByteArrayOutputStream();
        isBusy = true;
        return bytes;
    }

    private void closeSocket() {
        try {
            socket.close();
        } catch (IOException closed) {
            // The connection is closed already.
        }
    }
}
