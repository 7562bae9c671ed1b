import java.util.ArrayList;
import java.util.List;
import org.eclipse.paho.mqttv5.client.IMqttToken;
import org.eclipse.paho.mqttv5.client.MqttAsyncClient;
import org.eclipse.paho.mqttv5.client.MqttCallback;
import org.eclipse.paho.mqttv5.client.MqttConnectionOptions;
import org.eclipse.paho.mqttv5.client.MqttDisconnectResponse;
import org.eclipse.paho.mqttv5.client.persist.MemoryPersistence;
import org.eclipse.paho.mqttv5.common.MqttException;
import org.eclipse.paho.mqttv5.common.MqttMessage;
import org.eclipse.paho.mqttv5.common.MqttSubscription;
import org.eclipse.paho.mqttv5.common.packet.MqttProperties;
import org.eclipse.paho.mqttv5.common.packet.UserProperty;

/** Eclipse Paho Java for 5. */
final class Paho5 implements Driver.Client, MqttCallback {
    private final String name;
    private MqttAsyncClient client;
    private boolean leaving;

    Paho5(String name) {
        this.name = name;
    }

    @Override
    public void connect(Line line) throws Exception {
        String scheme = line.has("ca") ? "ssl" : "tcp";
        String address = scheme + "://" + line.text("host") + ":" + line.text("port");
        client = new MqttAsyncClient(address, line.text("id", ""), new MemoryPersistence());
        client.setCallback(this);
        try {
            IMqttToken token = client.connect(options(line));
            token.waitForCompletion();
            MqttProperties props = token.getResponseProperties();
            Line fields = new Line().put("present", token.getSessionPresent() ? 1 : 0);
            if (props != null) {
                fields.put("assigned_id", props.getAssignedClientIdentifier())
                    .put("server_keep_alive", props.getServerKeepAlive())
                    .put("receive_max", props.getReceiveMaximum())
                    .put("alias_max", props.getTopicAliasMaximum())
                    .put("packet_max", props.getMaximumPacketSize())
                    .put("session_expiry", props.getSessionExpiryInterval());
            }
            Driver.say(name, "connected", fields);
        } catch (MqttException error) {
            Driver.say(name, "refused", new Line().put("code", error.getReasonCode())
                .put("why", Driver.why(error)));
        }
    }

    private MqttConnectionOptions options(Line line) throws Exception {
        MqttConnectionOptions options = new MqttConnectionOptions();
        options.setCleanStart(line.flag("clean", true));
        options.setKeepAliveInterval(line.number("keep_alive", 60));
        options.setSessionExpiryInterval(line.wide("expiry"));
        options.setReceiveMaximum(line.narrow("receive_max"));
        options.setMaximumPacketSize(line.wide("packet_max"));
        options.setTopicAliasMaximum(line.narrow("alias_max"));
        if (line.has("user")) {
            options.setUserName(line.text("user"));
            options.setPassword(line.text("password", "").getBytes());
        }
        if (line.has("ca")) {
            options.setSocketFactory(Driver.sockets(line));
        }
        if (line.has("will_topic")) {
            MqttProperties will = new MqttProperties();
            will.setWillDelayInterval(line.wide("will_delay"));
            options.setWill(line.text("will_topic"), new MqttMessage(
                line.text("will_payload", "").getBytes(), line.number("will_qos", 0),
                line.flag("will_retain", false), null));
            options.setWillMessageProperties(will);
        }
        return options;
    }

    @Override
    public void subscribe(Line line) throws Exception {
        MqttSubscription wish =
            new MqttSubscription(line.text("filter"), line.number("qos", 0));
        wish.setNoLocal(line.flag("no_local", false));
        wish.setRetainAsPublished(line.flag("as_published", false));
        wish.setRetainHandling(line.number("handling", 0));
        MqttProperties props = new MqttProperties();
        if (line.has("subscription_id")) {
            props.setSubscriptionIdentifiers(List.of(line.number("subscription_id", 0)));
        }
        IMqttToken token = client.subscribe(
            new MqttSubscription[] {wish}, null, null, props);
        try {
            token.waitForCompletion();
        } catch (MqttException refused) {
            if (token.getReasonCodes() == null) {
                throw refused;
            }
        }
        Driver.say(name, "subscribed", new Line().put("code", token.getReasonCodes()[0]));
    }

    @Override
    public void unsubscribe(Line line) throws Exception {
        client.unsubscribe(line.text("filter")).waitForCompletion();
        Driver.say(name, "unsubscribed");
    }

    @Override
    public void publish(Line line) throws Exception {
        List<IMqttToken> sent = new ArrayList<>();
        for (byte[] payload : line.payloads()) {
            MqttProperties props = new MqttProperties();
            props.setMessageExpiryInterval(line.wide("expiry"));
            props.setContentType(line.text("type"));
            props.setResponseTopic(line.text("response_topic"));
            if (line.has("correlation")) {
                props.setCorrelationData(line.text("correlation").getBytes());
            }
            if (line.has("payload_format")) {
                props.setPayloadFormat(line.flag("payload_format", false));
            }
            List<UserProperty> users = new ArrayList<>();
            for (String pair : line.all("user_property")) {
                users.add(new UserProperty(pair.substring(0, pair.indexOf(':')),
                    pair.substring(pair.indexOf(':') + 1)));
            }
            props.setUserProperties(users);
            MqttMessage message = new MqttMessage(
                payload, line.number("qos", 0), line.flag("retain", false), props);
            sent.add(client.publish(line.text("topic"), message));
        }
        Line fields = new Line();
        for (IMqttToken token : sent) {
            token.waitForCompletion();
            int[] codes = token.getReasonCodes();
            if (codes != null && codes.length > 0 && token == sent.get(sent.size() - 1)) {
                fields.put("code", codes[0]);
            }
        }
        Driver.say(name, "published", fields);
    }

    @Override
    public void disconnect(Line line) throws Exception {
        leaving = true;
        MqttProperties props = new MqttProperties();
        props.setSessionExpiryInterval(line.wide("expiry"));
        client.disconnect(10_000, null, null, line.number("code", 0), props).waitForCompletion();
        Driver.say(name, "disconnected");
    }

    @Override
    public void disconnected(MqttDisconnectResponse response) {
        if (!leaving) {
            Driver.say(name, "lost", new Line().put("code", response.getReturnCode())
                .put("why", response.getReasonString()));
        }
    }

    @Override
    public void messageArrived(String topic, MqttMessage message) {
        Line fields = new Line().put("topic", topic)
            .put("payload", new String(message.getPayload())).put("qos", message.getQos())
            .put("retain", message.isRetained() ? 1 : 0)
            .put("dup", message.isDuplicate() ? 1 : 0);
        MqttProperties props = message.getProperties();
        if (props != null) {
            fields.put("content_type", props.getContentType())
                .put("response_topic", props.getResponseTopic())
                .put("expiry", props.getMessageExpiryInterval());
            if (props.getCorrelationData() != null) {
                fields.put("correlation", new String(props.getCorrelationData()));
            }
            for (Integer id : props.getSubscriptionIdentifiers()) {
                fields.put("subscription_id", id);
            }
            for (UserProperty pair : props.getUserProperties()) {
                fields.put("user_property", pair.getKey() + ":" + pair.getValue());
            }
        }
        Driver.say(name, "message", fields);
    }

    @Override
    public void deliveryComplete(IMqttToken token) {
    }

    @Override
    public void connectComplete(boolean reconnect, String server) {
    }

    @Override
    public void authPacketArrived(int code, MqttProperties properties) {
    }

    @Override
    public void mqttErrorOccurred(MqttException error) {
    }
}
