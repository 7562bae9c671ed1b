package holdline.im;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.cert.Certificate;
import java.util.Base64;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/** How a connection is made: through a proxy, with TLS, to a server whose key is known. */
final class Dialer {
    static final String PIN_PREFIX = "sha256/";

    /** No key of the server is pinned. */
    static final class PinMismatch extends IOException {
        private static final long serialVersionUID = 1;

        PinMismatch() {
            super("the server's key is not pinned");
        }
    }

    private final Options options;

    Dialer(Options options) {
        this.options = options;
    }

    Attempt attempt(String address) {
        return new Attempt(address);
    }

    static String host(String address) {
        String host = address.substring(0, address.lastIndexOf(':'));
        return host.startsWith("[") ? host.substring(1, host.length() - 1) : host;
    }

    static int port(String address) {
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    /** One attempt, which may be given up from another thread. */
    final class Attempt {
        private final String address;
        private Socket socket;
        private boolean isCancelled;

        private Attempt(String address) {
            this.address = address;
        }

        /** Gives up, unless the connection is there. */
        synchronized void cancel() {
            isCancelled = true;
            closeSocket();
        }

        private synchronized void closeSocket() {
            if (socket != null) {
                try {
                    socket.close();
                } catch (IOException closed) {
                    // The connection is closed already.
                }
            }
        }

        private synchronized Socket begin() throws IOException {
            if (isCancelled) {
                throw new IOException("given up");
            }
            socket = new Socket();
            return socket;
        }

        /** Hands over the connection, which {@link #cancel} does not close from now on. */
        private synchronized Socket handOver(Socket made) throws IOException {
            if (isCancelled) {
                throw new IOException("given up");
            }
            socket = null;
            return made;
        }

        Socket open() throws IOException {
            try {
                String host = host(address);
                int port = port(address);
                Socket plain = begin();
                plain.setTcpNoDelay(true);
                if (options.proxy == null) {
                    plain.connect(new InetSocketAddress(host, port));
                } else {
                    plain.connect(new InetSocketAddress(options.proxy.getHost(),
                        options.proxy.getPort()));
                    if (options.proxy.getScheme().equals("socks5")) {
                        socks5(plain, host, port);
                    } else {
                        httpConnect(plain);
                    }
                }
                return handOver(options.tls == null ? plain : secure(plain, port));
            } catch (IOException | RuntimeException failed) {
                closeSocket();
                throw failed instanceof IOException ? (IOException) failed
                    : new IOException(failed);
            }
        }

        /** The certificate must be for the configured name, also where the server sends us. */
        private Socket secure(Socket plain, int port) throws IOException {
            SSLSocket secure = (SSLSocket) options.tls.getSocketFactory().createSocket(plain,
                options.serverName, port, true);
            SSLParameters parameters = secure.getSSLParameters();
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            parameters.setApplicationProtocols(new String[] {"holdline-im/1"});
            secure.setSSLParameters(parameters);
            secure.startHandshake();
            checkPins(secure);
            return secure;
        }

        private void checkPins(SSLSocket secure) throws IOException {
            // The first one is the server's. Others are sent by it, and nothing proves that it has
            // their keys, or that they were needed to verify the first.
            if (options.pins.isEmpty()
                || options.pins.contains(pin(secure.getSession().getPeerCertificates()[0]))) {
                return;
            }
            secure.close();
            throw new PinMismatch();
        }

        private void httpConnect(Socket proxy) throws IOException {
            StringBuilder request = new StringBuilder("CONNECT " + address + " HTTP/1.1\r\n");
            request.append("Host: ").append(address).append("\r\n");
            String[] user = user(options.proxy);
            if (user != null) {
                byte[] both = (user[0] + ":" + user[1]).getBytes(StandardCharsets.UTF_8);
                request.append("Proxy-Authorization: Basic ");
                request.append(Base64.getEncoder().encodeToString(both)).append("\r\n");
            }
            byte[] bytes = request.append("\r\n").toString().getBytes(StandardCharsets.UTF_8);
            proxy.getOutputStream().write(bytes);
            String head = head(proxy.getInputStream());
            if (!head.matches("(?s)HTTP/1\\.[01] 2\\d\\d .*")) {
                throw refused();
            }
        }
    }

    /** The head of a response, read by single bytes: what follows is of the server. */
    private static String head(InputStream in) throws IOException {
        ByteArrayOutputStream head = new ByteArrayOutputStream();
        String text = "";
        while (!text.endsWith("\r\n\r\n")) {
            int octet = in.read();
            if (octet < 0 || head.size() > 8 << 10) {
                throw refused();
            }
            head.write(octet);
            if (octet == '\n') {
                text = head.toString("US-ASCII");
            }
        }
        return text;
    }

    private static IOException refused() {
        return new IOException("the proxy refused the connection");
    }

    static String pin(Certificate certificate) {
        try {
            byte[] key = certificate.getPublicKey().getEncoded(); // SubjectPublicKeyInfo
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(key);
            return PIN_PREFIX + Base64.getEncoder().encodeToString(digest);
        } catch (GeneralSecurityException absent) {
            throw new IllegalStateException("every Java has SHA-256", absent);
        }
    }

    /** User and password of a proxy; null without. */
    private static String[] user(URI proxy) throws IOException {
        String info = proxy.getRawUserInfo();
        if (info == null) {
            return null;
        }
        String[] both = info.split(":", 2);
        return new String[] {decoded(both[0]), both.length > 1 ? decoded(both[1]) : ""};
    }

    private static String decoded(String text) throws IOException {
        return URLDecoder.decode(text.replace("+", "%2B"), "UTF-8");
    }

    /** RFC 1928 and RFC 1929; the proxy resolves the name. */
    private void socks5(Socket proxy, String host, int port) throws IOException {
        String[] user = user(options.proxy);
        int method = user == null ? 0 : 2;
        byte[] answer = exchange(proxy, new byte[] {5, 1, (byte) method}, 2);
        if (answer[0] != 5 || answer[1] != method) {
            throw refused();
        }
        if (user != null) {
            answer = exchange(proxy, joined(new byte[] {1}, text(user[0]), text(user[1])), 2);
            if (answer[1] != 0) {
                throw refused();
            }
        }
        byte[] portBytes = {(byte) (port >> 8), (byte) port};
        answer = exchange(proxy, joined(new byte[] {5, 1, 0, 3}, text(host), portBytes), 5);
        if (answer[1] != 0) {
            throw refused();
        }
        // The address that follows is of no interest; one byte of it was read already.
        int rest = answer[3] == 1 ? 3 : answer[3] == 4 ? 15 : answer[4] & 0xff;
        exchange(proxy, new byte[0], rest + 2);
    }

    /** A text behind its length. */
    private static byte[] text(String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (bytes.length > 255) {
            throw refused();
        }
        return joined(new byte[] {(byte) bytes.length}, bytes);
    }

    private static byte[] joined(byte[]... parts) {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            all.write(part, 0, part.length);
        }
        return all.toByteArray();
    }

    private static byte[] exchange(Socket proxy, byte[] request, int count) throws IOException {
        proxy.getOutputStream().write(request);
        byte[] answer = new byte[count];
        for (int at = 0; at < count;) {
            int more = proxy.getInputStream().read(answer, at, count - at);
            if (more < 0) {
                throw refused();
            }
            at += more;
        }
        return answer;
    }
}
