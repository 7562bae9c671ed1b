import org.eclipse.paho.client.mqttv3.IMqttDeliveryToken;
import org.eclipse.paho.client.mqttv3.IMqttToken;
import org.eclipse.paho.client.mqttv3.MqttAsyncClient;
import org.eclipse.paho.client.mqttv3.MqttCallback;
import org.eclipse.paho.client.mqttv3.MqttConnectOptions;
import org.eclipse.paho.client.mqttv3.MqttException;
import org.eclipse.paho.client.mqttv3.MqttMessage;
import org.eclipse.paho.client.mqttv3.persist.MemoryPersistence;

/** Eclipse Paho Java for 3.1 and 3.1.1. */
final class Paho3 implements Driver.Client, MqttCallback {
    private final String name;
    private MqttAsyncClient client;

    Paho3(String name) {
        this.name = name;
    }

    @Override
    public void connect(Line line) throws Exception {
        String scheme = line.has("ca") ? "ssl" : "tcp";
        String address = scheme + "://" + line.text("host") + ":" + line.text("port");
        client = new MqttAsyncClient(address, line.text("id", ""), new MemoryPersistence());
        client.setCallback(this);
        MqttConnectOptions options = new MqttConnectOptions();
        options.setMqttVersion(line.number("version", 4));
        options.setCleanSession(line.flag("clean", true));
        options.setKeepAliveInterval(line.number("keep_alive", 60));
        options.setMaxInflight(1000);
        if (line.has("user")) {
            options.setUserName(line.text("user"));
            options.setPassword(line.text("password", "").toCharArray());
        }
        if (line.has("ca")) {
            options.setSocketFactory(Driver.sockets(line));
        }
        if (line.has("will_topic")) {
            options.setWill(line.text("will_topic"), line.text("will_payload", "").getBytes(),
                line.number("will_qos", 0), line.flag("will_retain", false));
        }
        try {
            IMqttToken token = client.connect(options);
            token.waitForCompletion();
            Driver.say(name, "connected",
                new Line().put("present", token.getSessionPresent() ? 1 : 0));
        } catch (MqttException error) {
            Driver.say(name, "refused", new Line().put("code", error.getReasonCode())
                .put("why", Driver.why(error)));
        }
    }

    @Override
    public void subscribe(Line line) throws Exception {
        IMqttToken token = client.subscribe(line.text("filter"), line.number("qos", 0));
        try {
            token.waitForCompletion();
        } catch (MqttException refused) {
            if (token.getGrantedQos() == null) {
                throw refused;
            }
        }
        Driver.say(name, "subscribed", new Line().put("code", token.getGrantedQos()[0]));
    }

    @Override
    public void unsubscribe(Line line) throws Exception {
        client.unsubscribe(line.text("filter")).waitForCompletion();
        Driver.say(name, "unsubscribed");
    }

    @Override
    public void publish(Line line) throws Exception {
        java.util.List<IMqttDeliveryToken> sent = new java.util.ArrayList<>();
        for (byte[] payload : line.payloads()) {
            sent.add(client.publish(line.text("topic"), payload, line.number("qos", 0),
                line.flag("retain", false)));
        }
        for (IMqttDeliveryToken token : sent) {
            token.waitForCompletion();
        }
        Driver.say(name, "published");
    }

    @Override
    public void disconnect(Line line) throws Exception {
        client.disconnect().waitForCompletion();
        Driver.say(name, "disconnected");
    }

    @Override
    public void connectionLost(Throwable cause) {
        Driver.say(name, "lost", new Line().put("why", Driver.why(cause)));
    }

    @Override
    public void messageArrived(String topic, MqttMessage message) {
        Driver.say(name, "message", new Line().put("topic", topic)
            .put("payload", new String(message.getPayload())).put("qos", message.getQos())
            .put("retain", message.isRetained() ? 1 : 0)
            .put("dup", message.isDuplicate() ? 1 : 0));
    }

    @Override
    public void deliveryComplete(IMqttDeliveryToken token) {
    }
}
