package holdline.im;

/**
 * The time of a client, for tests and for systems with timers of their own, such as Android's
 * AlarmManager, which wakes a device that sleeps.
 */
public interface Clock {
    /** Milliseconds of a clock that never goes back. */
    long nowMs();

    /** The Unix time, milliseconds. */
    long wallMs();

    /**
     * Arranges for one call of {@code wake}, in place of the one arranged before; null: for none.
     * The library does not call it itself.
     */
    void wakeAt(long atMs, Runnable wake);

    /** Releases what it holds. */
    default void close() {}
}
