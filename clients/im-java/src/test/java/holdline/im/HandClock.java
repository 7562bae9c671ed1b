package holdline.im;

/** A clock that a test sets. */
final class HandClock implements Clock {
    private final long wallBegin;
    private long now;
    private long at;
    private Runnable wake;

    HandClock(long wallBegin) {
        this.wallBegin = wallBegin;
    }

    @Override
    public synchronized long nowMs() {
        return now;
    }

    @Override
    public synchronized long wallMs() {
        return wallBegin + now;
    }

    @Override
    public synchronized void wakeAt(long atMs, Runnable wake) {
        at = atMs;
        this.wake = wake;
    }

    /** Runs what is due at a time. */
    void set(long ms) {
        synchronized (this) {
            now = ms;
        }
        for (Runnable due = due(); due != null; due = due()) {
            due.run();
        }
    }

    synchronized Runnable due() {
        return wake == null || at > now ? null : wake;
    }

    /** The time of the timer; null without one. */
    synchronized Long next() {
        return wake == null ? null : at;
    }
}
