package holdline.miop

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.flow

/** The server has ended the client for good; [state] says why. */
class EndedException(val state: State) : Exception(state.toString())

/**
 * A device with coroutines, made of a builder of the Java library. The builder's handlers of pushes,
 * states and Reports are set here.
 */
class MiopClient(builder: ClientBuilder) : AutoCloseable {
    // Bounded by the window: the server sends no more pushes than that without an acknowledgement.
    private val waiting = Channel<Push>(Channel.UNLIMITED)
    private val reports = ConcurrentHashMap<String, CompletableDeferred<Unit>>()
    private val states = MutableStateFlow<State?>(null)

    /** The Java library's client, for what has no need of coroutines. */
    val client: Client = builder
        .manualAck()
        .onPush { waiting.trySend(it) }
        .onStored { reports.remove(it)?.complete(Unit) }
        .onState(::became)
        .build()

    /** What the client does now; null before [start]. */
    val state: StateFlow<State?> = states.asStateFlow()

    /**
     * Pushes, each once, for one collector. A push is acknowledged when the collector has returned
     * from it; if it fails, the server sends the push again. The flow ends after [close], and fails
     * with [EndedException] if the server ends the client for good. An operator that lets the
     * collector fall behind, such as `buffer`, acknowledges pushes that are not handled yet.
     */
    val pushes: Flow<Push> = flow {
        for (push in waiting) {
            var isHandled = false
            try {
                emit(push)
                isHandled = true
            } finally {
                if (isHandled) client.acknowledge(push.id()) else client.reject(push.id())
            }
        }
    }

    /** Connects, and stays connected. */
    fun start(): MiopClient {
        client.start()
        return this
    }

    /** Waits for a session; fails with [EndedException]. */
    suspend fun bound(): State {
        val found = state.first { it?.name() == State.Name.BOUND || it?.name() == State.Name.ENDED }
        if (found!!.name() == State.Name.ENDED) throw EndedException(found)
        return found
    }

    /**
     * Sends bytes to the application's server and waits until it has them. The Report stays queued
     * if this is cancelled. Fails with [MiopException] `queue_full`.
     */
    suspend fun report(body: ByteArray, clientId: String = UUID.randomUUID().toString()) {
        val stored = reports.computeIfAbsent(clientId) { CompletableDeferred() }
        client.report(clientId, body)
        states.value?.let { if (it.name() == State.Name.ENDED) throw EndedException(it) }
        stored.await()
    }

    /**
     * Reports that the user opened a push. The Report is queued once and outlives connections; this
     * does not wait for the server. Fails with [MiopException] `queue_full`.
     */
    fun opened(id: Long) {
        client.opened(id)
    }

    /** Reports that the user dismissed a push, likewise. */
    fun dismissed(id: Long) {
        client.dismissed(id)
    }

    /** Tells the server that the device leaves. */
    override fun close() = client.close()

    private fun became(next: State) {
        states.value = next
        if (next.name() != State.Name.ENDED) return
        val failure = if (next.why() == "closed") null else EndedException(next)
        waiting.close(failure)
        for (report in reports.values) report.completeExceptionally(EndedException(next))
    }
}
