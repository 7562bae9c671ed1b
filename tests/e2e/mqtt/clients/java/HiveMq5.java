import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.datatypes.MqttUtf8String;
import com.hivemq.client.mqtt.mqtt5.Mqtt5AsyncClient;
import com.hivemq.client.mqtt.mqtt5.Mqtt5Client;
import com.hivemq.client.mqtt.mqtt5.Mqtt5ClientBuilder;
import com.hivemq.client.mqtt.mqtt5.datatypes.Mqtt5UserProperties;
import com.hivemq.client.mqtt.mqtt5.datatypes.Mqtt5UserPropertiesBuilder;
import com.hivemq.client.mqtt.mqtt5.datatypes.Mqtt5UserProperty;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5ConnAckException;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5DisconnectException;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5SubAckException;
import com.hivemq.client.mqtt.mqtt5.message.connect.Mqtt5Connect;
import com.hivemq.client.mqtt.mqtt5.message.connect.Mqtt5ConnectBuilder;
import com.hivemq.client.mqtt.mqtt5.message.connect.Mqtt5ConnectRestrictions;
import com.hivemq.client.mqtt.mqtt5.message.connect.Mqtt5ConnectRestrictionsBuilder;
import com.hivemq.client.mqtt.mqtt5.message.connect.connack.Mqtt5ConnAck;
import com.hivemq.client.mqtt.mqtt5.message.disconnect.Mqtt5DisconnectBuilder;
import com.hivemq.client.mqtt.mqtt5.message.disconnect.Mqtt5DisconnectReasonCode;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PayloadFormatIndicator;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5Publish;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PublishBuilder;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PublishResult;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5WillPublishBuilder;
import com.hivemq.client.mqtt.mqtt5.message.subscribe.Mqtt5RetainHandling;
import com.hivemq.client.mqtt.mqtt5.message.subscribe.suback.Mqtt5SubAck;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** The HiveMQ client for 5. */
final class HiveMq5 implements Driver.Client {
    private final String name;
    private Mqtt5AsyncClient client;
    private volatile boolean leaving;
    private volatile boolean up;

    HiveMq5(String name) {
        this.name = name;
    }

    @Override
    public void connect(Line line) throws Exception {
        Mqtt5ClientBuilder builder = Mqtt5Client.builder().identifier(line.text("id", ""))
            .serverHost(line.text("host")).serverPort(line.number("port", 0))
            .addDisconnectedListener(context -> lost(context.getCause()));
        if (line.has("ca")) {
            builder = builder.sslConfig(HiveMq3.ssl(line));
        }
        if (line.has("ws")) {
            builder = builder.webSocketConfig().serverPath(line.text("ws").substring(1))
                .applyWebSocketConfig();
        }
        client = builder.buildAsync();
        client.publishes(MqttGlobalPublishFilter.ALL, this::message);
        try {
            Mqtt5ConnAck answer = client.connect(packet(line)).get();
            up = true;
            Line fields = new Line().put("present", answer.isSessionPresent() ? 1 : 0)
                .put("receive_max", answer.getRestrictions().getReceiveMaximum())
                .put("alias_max", answer.getRestrictions().getTopicAliasMaximum())
                .put("packet_max", answer.getRestrictions().getMaximumPacketSize());
            answer.getAssignedClientIdentifier().ifPresent(id -> fields.put("assigned_id", id));
            answer.getServerKeepAlive().ifPresent(s -> fields.put("server_keep_alive", s));
            answer.getSessionExpiryInterval().ifPresent(s -> fields.put("session_expiry", s));
            Driver.say(name, "connected", fields);
        } catch (ExecutionException error) {
            Line fields = new Line().put("why", Driver.why(error.getCause()));
            if (error.getCause() instanceof Mqtt5ConnAckException refusal) {
                fields.put("code", refusal.getMqttMessage().getReasonCode().getCode());
            }
            Driver.say(name, "refused", fields);
        }
    }

    private void lost(Throwable cause) {
        if (up && !leaving) {
            Line fields = new Line().put("why", Driver.why(cause));
            if (cause instanceof Mqtt5DisconnectException farewell) {
                fields.put("code", farewell.getMqttMessage().getReasonCode().getCode());
            }
            Driver.say(name, "lost", fields);
        }
        up = false;
    }

    private static Mqtt5Connect packet(Line line) {
        Mqtt5ConnectBuilder connect = Mqtt5Connect.builder()
            .cleanStart(line.flag("clean", true)).keepAlive(line.number("keep_alive", 60))
            .sessionExpiryInterval(line.has("expiry") ? line.wide("expiry") : 0L);
        Mqtt5ConnectRestrictionsBuilder limits = Mqtt5ConnectRestrictions.builder();
        if (line.has("receive_max")) {
            limits = limits.receiveMaximum(line.number("receive_max", 0));
        }
        if (line.has("packet_max")) {
            limits = limits.maximumPacketSize(line.number("packet_max", 0));
        }
        if (line.has("alias_max")) {
            limits = limits.topicAliasMaximum(line.number("alias_max", 0));
        }
        connect = connect.restrictions(limits.build());
        if (line.has("user")) {
            connect = connect.simpleAuth().username(line.text("user"))
                .password(line.text("password", "").getBytes()).applySimpleAuth();
        }
        if (line.has("will_topic")) {
            Mqtt5WillPublishBuilder.Nested.Complete<? extends Mqtt5ConnectBuilder> will =
                connect.willPublish().topic(line.text("will_topic"))
                    .payload(line.text("will_payload", "").getBytes())
                    .qos(MqttQos.fromCode(line.number("will_qos", 0)))
                    .retain(line.flag("will_retain", false));
            if (line.has("will_delay")) {
                will = will.delayInterval(line.number("will_delay", 0));
            }
            connect = will.applyWillPublish();
        }
        return connect.build();
    }

    @Override
    public void subscribe(Line line) throws Exception {
        var wish = client.subscribeWith().topicFilter(line.text("filter"))
            .qos(MqttQos.fromCode(line.number("qos", 0)))
            .noLocal(line.flag("no_local", false))
            .retainAsPublished(line.flag("as_published", false))
            .retainHandling(Mqtt5RetainHandling.fromCode(line.number("handling", 0)));
        Mqtt5SubAck answer;
        try {
            answer = wish.send().get();
        } catch (ExecutionException error) {
            if (!(error.getCause() instanceof Mqtt5SubAckException refusal)) {
                throw error;
            }
            answer = refusal.getMqttMessage();
        }
        Driver.say(name, "subscribed",
            new Line().put("code", answer.getReasonCodes().get(0).getCode())
                .put("why", answer.getReasonString().orElse(null)));
    }

    @Override
    public void unsubscribe(Line line) throws Exception {
        client.unsubscribeWith().topicFilter(line.text("filter")).send().get();
        Driver.say(name, "unsubscribed");
    }

    @Override
    public void publish(Line line) throws Exception {
        List<CompletableFuture<Mqtt5PublishResult>> sent = new ArrayList<>();
        for (byte[] payload : line.payloads()) {
            Mqtt5PublishBuilder.Complete message = Mqtt5Publish.builder()
                .topic(line.text("topic")).payload(payload)
                .qos(MqttQos.fromCode(line.number("qos", 0))).retain(line.flag("retain", false))
                .contentType(line.text("type")).responseTopic(line.text("response_topic"));
            if (line.has("correlation")) {
                message = message.correlationData(line.text("correlation").getBytes());
            }
            if (line.has("expiry")) {
                message = message.messageExpiryInterval(line.wide("expiry"));
            }
            if (line.has("payload_format")) {
                message = message.payloadFormatIndicator(
                    Mqtt5PayloadFormatIndicator.fromCode(line.number("payload_format", 0)));
            }
            Mqtt5UserPropertiesBuilder users = Mqtt5UserProperties.builder();
            for (String pair : line.all("user_property")) {
                users = users.add(pair.substring(0, pair.indexOf(':')),
                    pair.substring(pair.indexOf(':') + 1));
            }
            sent.add(client.publish(message.userProperties(users.build()).build()));
        }
        Line fields = new Line();
        for (CompletableFuture<Mqtt5PublishResult> each : sent) {
            Mqtt5PublishResult result = each.get();
            if (result instanceof Mqtt5PublishResult.Mqtt5Qos1Result one
                && each == sent.get(sent.size() - 1)) {
                fields.put("code", one.getPubAck().getReasonCode().getCode());
            }
            if (result.getError().isPresent()) {
                fields.put("why", Driver.why(result.getError().get()));
            }
        }
        Driver.say(name, "published", fields);
    }

    @Override
    public void disconnect(Line line) throws Exception {
        leaving = true;
        Mqtt5DisconnectBuilder.Send<CompletableFuture<Void>> farewell = client.disconnectWith();
        if (line.number("code", 0) == 4) {
            farewell = farewell.reasonCode(Mqtt5DisconnectReasonCode.DISCONNECT_WITH_WILL_MESSAGE);
        }
        if (line.has("expiry")) {
            farewell = farewell.sessionExpiryInterval(line.wide("expiry"));
        }
        farewell.send().get();
        Driver.say(name, "disconnected");
    }

    private static String text(ByteBuffer bytes) {
        return StandardCharsets.UTF_8.decode(bytes).toString();
    }

    private void message(Mqtt5Publish message) {
        Line fields = new Line().put("topic", message.getTopic())
            .put("payload", new String(message.getPayloadAsBytes()))
            .put("qos", message.getQos().getCode()).put("retain", message.isRetain() ? 1 : 0);
        message.getContentType().map(MqttUtf8String::toString)
            .ifPresent(type -> fields.put("content_type", type));
        message.getResponseTopic().ifPresent(topic -> fields.put("response_topic", topic));
        message.getCorrelationData().ifPresent(data -> fields.put("correlation", text(data)));
        message.getMessageExpiryInterval().ifPresent(s -> fields.put("expiry", s));
        message.getPayloadFormatIndicator()
            .ifPresent(format -> fields.put("payload_format", format.getCode()));
        for (Mqtt5UserProperty pair : message.getUserProperties().asList()) {
            fields.put("user_property", pair.getName() + ":" + pair.getValue());
        }
        Driver.say(name, "message", fields);
    }
}
