import holdline.miop.Client
import holdline.miop.MiopClient
import kotlinx.coroutines.flow.launchIn
import kotlinx.coroutines.flow.onEach
import kotlinx.coroutines.runBlocking

/** An idle phone by the library for Kotlin: ADDRESS PRODUCT DEVICE FIRST_S. */
fun main(words: Array<String>) = runBlocking {
    val device = Client.builder(words[0], words[1], words[2]).heartbeat(30, words[3].toInt(), 1800)
    MiopClient(device).use { client ->
        client.state.onEach { println("# $it") }.launchIn(this)
        client.start()
        client.pushes.collect { push -> println(push.text()) }
    }
}
