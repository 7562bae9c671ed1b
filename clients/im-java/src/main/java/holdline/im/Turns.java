package holdline.im;

import java.util.ArrayDeque;
import java.util.Deque;

/** Runs callbacks in order, in a thread that exists while there are any to come. */
final class Turns {
    private final String name;
    private final Deque<Runnable> waiting = new ArrayDeque<>();
    private boolean isStarted;
    private boolean isBusy;
    private boolean isOver;
    private int count;
    /** Called when nothing waits, and at least after each REST_EVERY callbacks. */
    private final Runnable rest;
    private static final int REST_EVERY = 32;

    Turns(String name, Runnable rest) {
        this.name = name;
        this.rest = rest;
    }

    /** Waits until fewer callbacks wait. */
    synchronized void awaitBelow(int most) throws InterruptedException {
        while (waiting.size() >= most && !isOver) {
            wait();
        }
    }

    private synchronized boolean isRest() {
        count++;
        return waiting.isEmpty() || count % REST_EVERY == 0;
    }

    synchronized void add(Runnable what) {
        waiting.add(what);
        if (!isStarted) {
            isStarted = true;
            Thread thread = new Thread(this::run, name);
            thread.setDaemon(true);
            thread.start();
        }
        notifyAll();
    }

    /** Lets the thread end after what waits. */
    synchronized void close() {
        isOver = true;
        notifyAll();
    }

    synchronized void await() throws InterruptedException {
        while (isBusy || !waiting.isEmpty()) {
            wait();
        }
    }

    private void run() {
        for (Runnable next = next(); next != null; next = next()) {
            try {
                next.run();
                if (isRest()) {
                    rest.run();
                }
            } catch (RuntimeException failed) {
                Thread.UncaughtExceptionHandler handler =
                    Thread.currentThread().getUncaughtExceptionHandler();
                handler.uncaughtException(Thread.currentThread(), failed);
            }
        }
    }

    private synchronized Runnable next() {
        isBusy = false;
        notifyAll();
        try {
            while (waiting.isEmpty() && !isOver) {
                wait();
            }
        } catch (InterruptedException stopped) {
            return null;
        }
        isBusy = !waiting.isEmpty();
        return waiting.poll();
    }
}
