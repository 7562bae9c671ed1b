package holdline.im

import dev.holdline.im.v1.ChatMessage
import dev.holdline.im.v1.ClientFrame
import dev.holdline.im.v1.Content
import dev.holdline.im.v1.InboxEvent
import dev.holdline.im.v1.LoginToken
import dev.holdline.im.v1.ServerFrame
import java.util.concurrent.ConcurrentHashMap
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.channels.BufferOverflow
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.MutableSharedFlow
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.SharedFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asSharedFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.future.await

/** The server has ended the client for good; [state] says why. */
class EndedException(val state: State) : Exception(state.toString())

/** At most `count` messages of a conversation, the oldest first, and whether there are more. */
class HistoryPart(val messages: List<ChatMessage>, val hasMore: Boolean)

/**
 * A device of an account with coroutines, made of a builder of the Java library. The builder's
 * listeners are set here.
 */
class ImClient(builder: ClientBuilder) : AutoCloseable {
    // Bounded: the Java library hands out 256 messages without an acknowledgement at most.
    private val waiting = Channel<Message>(Channel.UNLIMITED)
    private val sending = ConcurrentHashMap<String, CompletableDeferred<Sent>>()
    private val states = MutableStateFlow<State?>(null)
    private val inboxEvents = passing<InboxEvent>()
    private val tellings = passing<ServerFrame>()

    /** The Java library's client, for what has no need of coroutines. */
    val client: Client = builder
        .manualAck()
        .onMessage { waiting.trySend(it) }
        .onEvent(::happened)
        .onTold { tellings.tryEmit(it) }
        .onSent { sending.remove(it.clientId())?.complete(it) }
        .onFailed { sending.remove(it.clientId())?.completeExceptionally(it.error()) }
        .onState(::became)
        .build()

    /** What the client does now; null before [start]. */
    val state: StateFlow<State?> = states.asStateFlow()

    /** Read cursors and settings, while somebody collects them; a slow collector misses the oldest. */
    val events: SharedFlow<InboxEvent> = inboxEvents.asSharedFlow()

    /** What has no place in the inbox (presence, typing, chatrooms); likewise. */
    val told: SharedFlow<ServerFrame> = tellings.asSharedFlow()

    /**
     * Messages of the inbox, each once and in order, for one collector. A message is acknowledged
     * when the collector has returned from it; if it fails, the message comes again in a new
     * process. The flow ends after [close], and fails with [EndedException] if the server ends the
     * client for good. An operator that lets the collector fall behind, such as `buffer`,
     * acknowledges messages that are not handled yet.
     */
    val messages: Flow<Message> = flow {
        for (message in waiting) {
            emit(message)
            client.acknowledge(message.place())
        }
    }

    /** Connects, and stays connected. */
    fun start(): ImClient {
        client.start()
        return this
    }

    /** Waits for a session; fails with [EndedException]. */
    suspend fun online(): State {
        val found = state.first {
            it?.name() == State.Name.ONLINE || it?.name() == State.Name.ENDED
        }
        if (found!!.name() == State.Name.ENDED) throw EndedException(found)
        return found
    }

    /** Queues a text, now or for when there is a connection, and returns its client id. */
    fun post(to: String, text: String): String = client.send(to, text)

    /** Sends a text and waits until it is stored; see the other [send]. */
    suspend fun send(to: String, text: String): Sent =
        send(to, Content.newBuilder().setKind(1).setText(text).build())

    /**
     * Sends any content and waits until it is stored. The message stays queued if this is
     * cancelled, or fails with [EndedException]. Fails with an [ImException] if the server refuses
     * it for good.
     */
    suspend fun send(to: String, content: Content, clientId: String = Client.clientId()): Sent {
        val stored = sending.computeIfAbsent(clientId) { CompletableDeferred() }
        client.send(clientId, to, content)
        states.value?.let { if (it.name() == State.Name.ENDED) throw EndedException(it) }
        return stored.await()
    }

    /**
     * Asks the server something: `request { number -> … }` makes the frame with that number. Fails
     * with an [ImException]; without a connection it is `disconnected`.
     */
    suspend fun request(frame: (number: Int) -> ClientFrame): ServerFrame =
        client.request(frame).await()

    /** Messages of a conversation before this place; 0: its end. */
    suspend fun history(peer: String, count: Int = 50, before: Long = 0): HistoryPart {
        val page = client.history(peer, count, before).await()
        return HistoryPart(Client.oldestFirst(page), page.more)
    }

    /** The account has read a conversation up to this place. */
    suspend fun markRead(peer: String, upto: Long) {
        client.markRead(peer, upto).await()
    }

    /** A token by which this device logs in without the password. */
    suspend fun requestToken(): LoginToken = client.requestToken().await()

    /** Says goodbye. Messages that are not sent yet stay in the store. */
    override fun close() = client.close()

    private fun happened(event: InboxEvent) {
        inboxEvents.tryEmit(event)
        client.acknowledge(event.seq)
    }

    private fun became(next: State) {
        states.value = next
        if (next.name() != State.Name.ENDED) return
        waiting.close(if (next.why() == "closed") null else EndedException(next))
        for (stored in sending.values) stored.completeExceptionally(EndedException(next))
    }

    private companion object {
        fun <T> passing() = MutableSharedFlow<T>(
            extraBufferCapacity = 256,
            onBufferOverflow = BufferOverflow.DROP_OLDEST,
        )
    }
}
