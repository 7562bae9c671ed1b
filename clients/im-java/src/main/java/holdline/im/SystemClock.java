package holdline.im;

import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** The time of the system, with one thread for the timer. */
final class SystemClock implements Clock {
    private final ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1, task -> {
        Thread thread = new Thread(task, "im-timer");
        thread.setDaemon(true);
        return thread;
    });
    private final long begin = System.nanoTime();
    private ScheduledFuture<?> next;
    private long nextAt = -1;

    SystemClock() {
        timer.setRemoveOnCancelPolicy(true);
    }

    @Override
    public long nowMs() {
        return (System.nanoTime() - begin) / 1_000_000;
    }

    @Override
    public long wallMs() {
        return System.currentTimeMillis();
    }

    @Override
    public synchronized void wakeAt(long atMs, Runnable wake) {
        if (next != null && wake != null && atMs == nextAt && !next.isDone()) {
            return;
        }
        if (next != null) {
            next.cancel(false);
            next = null;
        }
        if (wake != null && !timer.isShutdown()) {
            nextAt = atMs;
            long delay = Math.max(0, atMs - nowMs());
            next = timer.schedule(wake, delay, TimeUnit.MILLISECONDS);
        }
    }

    @Override
    public void close() {
        timer.shutdown();
    }
}
