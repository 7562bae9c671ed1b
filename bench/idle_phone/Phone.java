import holdline.miop.Client;

/** An idle phone by the library for Java: ADDRESS PRODUCT DEVICE FIRST_S. */
public class Phone {
    public static void main(String[] words) throws Exception {
        Client client = Client.builder(words[0], words[1], words[2])
            .heartbeat(30, Integer.parseInt(words[3]), 1800)
            .onPush(push -> System.out.println(push.text()))
            .onState(state -> System.out.println("# " + state))
            .build();
        client.start().await();
    }
}
