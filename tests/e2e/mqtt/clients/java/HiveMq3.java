import com.hivemq.client.mqtt.MqttClientSslConfig;
import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.mqtt3.Mqtt3AsyncClient;
import com.hivemq.client.mqtt.mqtt3.Mqtt3Client;
import com.hivemq.client.mqtt.mqtt3.Mqtt3ClientBuilder;
import com.hivemq.client.mqtt.mqtt3.exceptions.Mqtt3ConnAckException;
import com.hivemq.client.mqtt.mqtt3.exceptions.Mqtt3SubAckException;
import com.hivemq.client.mqtt.mqtt3.message.connect.Mqtt3Connect;
import com.hivemq.client.mqtt.mqtt3.message.connect.Mqtt3ConnectBuilder;
import com.hivemq.client.mqtt.mqtt3.message.connect.connack.Mqtt3ConnAck;
import com.hivemq.client.mqtt.mqtt3.message.publish.Mqtt3Publish;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** The HiveMQ client for 3.1.1. */
final class HiveMq3 implements Driver.Client {
    private final String name;
    private Mqtt3AsyncClient client;
    private volatile boolean leaving;
    private volatile boolean up;

    HiveMq3(String name) {
        this.name = name;
    }

    static MqttClientSslConfig ssl(Line line) throws Exception {
        return MqttClientSslConfig.builder().trustManagerFactory(Driver.trust(line))
            .keyManagerFactory(Driver.keys(line)).build();
    }

    @Override
    public void connect(Line line) throws Exception {
        Mqtt3ClientBuilder builder = Mqtt3Client.builder().identifier(line.text("id", ""))
            .serverHost(line.text("host")).serverPort(line.number("port", 0))
            .addDisconnectedListener(context -> {
                if (up && !leaving) {
                    Driver.say(name, "lost",
                        new Line().put("why", Driver.why(context.getCause())));
                }
                up = false;
            });
        if (line.has("ca")) {
            builder = builder.sslConfig(ssl(line));
        }
        if (line.has("ws")) {
            builder = builder.webSocketConfig().serverPath(line.text("ws").substring(1))
                .applyWebSocketConfig();
        }
        client = builder.buildAsync();
        client.publishes(MqttGlobalPublishFilter.ALL, this::message);
        Mqtt3ConnectBuilder connect = Mqtt3Connect.builder()
            .cleanSession(line.flag("clean", true)).keepAlive(line.number("keep_alive", 60));
        if (line.has("user")) {
            connect = connect.simpleAuth().username(line.text("user"))
                .password(line.text("password", "").getBytes()).applySimpleAuth();
        }
        if (line.has("will_topic")) {
            connect = connect.willPublish().topic(line.text("will_topic"))
                .payload(line.text("will_payload", "").getBytes())
                .qos(MqttQos.fromCode(line.number("will_qos", 0)))
                .retain(line.flag("will_retain", false)).applyWillPublish();
        }
        try {
            Mqtt3ConnAck answer = client.connect(connect.build()).get();
            up = true;
            Driver.say(name, "connected",
                new Line().put("present", answer.isSessionPresent() ? 1 : 0));
        } catch (ExecutionException error) {
            Line fields = new Line().put("why", Driver.why(error.getCause()));
            if (error.getCause() instanceof Mqtt3ConnAckException refusal) {
                fields.put("code", refusal.getMqttMessage().getReturnCode().getCode());
            }
            Driver.say(name, "refused", fields);
        }
    }

    @Override
    public void subscribe(Line line) throws Exception {
        try {
            int code = client.subscribeWith().topicFilter(line.text("filter"))
                .qos(MqttQos.fromCode(line.number("qos", 0))).send().get()
                .getReturnCodes().get(0).getCode();
            Driver.say(name, "subscribed", new Line().put("code", code));
        } catch (ExecutionException error) {
            if (error.getCause() instanceof Mqtt3SubAckException refusal) {
                Driver.say(name, "subscribed", new Line()
                    .put("code", refusal.getMqttMessage().getReturnCodes().get(0).getCode()));
                return;
            }
            throw error;
        }
    }

    @Override
    public void unsubscribe(Line line) throws Exception {
        client.unsubscribeWith().topicFilter(line.text("filter")).send().get();
        Driver.say(name, "unsubscribed");
    }

    @Override
    public void publish(Line line) throws Exception {
        List<CompletableFuture<Mqtt3Publish>> sent = new ArrayList<>();
        for (byte[] payload : line.payloads()) {
            sent.add(client.publishWith().topic(line.text("topic")).payload(payload)
                .qos(MqttQos.fromCode(line.number("qos", 0)))
                .retain(line.flag("retain", false)).send());
        }
        for (CompletableFuture<Mqtt3Publish> each : sent) {
            each.get();
        }
        Driver.say(name, "published");
    }

    @Override
    public void disconnect(Line line) throws Exception {
        leaving = true;
        client.disconnect().get();
        Driver.say(name, "disconnected");
    }

    private void message(Mqtt3Publish message) {
        Driver.say(name, "message", new Line().put("topic", message.getTopic())
            .put("payload", new String(message.getPayloadAsBytes()))
            .put("qos", message.getQos().getCode()).put("retain", message.isRetain() ? 1 : 0));
    }
}
