import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A form: what is told and what is said. A key may stand several times. */
final class Line {
    private final Map<String, List<String>> fields = new LinkedHashMap<>();

    static Line read(String text) {
        Line line = new Line();
        for (String pair : text.split("&")) {
            int at = pair.indexOf('=');
            line.put(decode(pair.substring(0, at)), decode(pair.substring(at + 1)));
        }
        return line;
    }

    private static String decode(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }

    /** Adds a value, unless it is null. */
    Line put(String key, Object value) {
        if (value != null) {
            fields.computeIfAbsent(key, any -> new ArrayList<>()).add(value.toString());
        }
        return this;
    }

    boolean has(String key) {
        return fields.containsKey(key);
    }

    String text(String key) {
        return has(key) ? fields.get(key).get(0) : null;
    }

    String text(String key, String otherwise) {
        return has(key) ? text(key) : otherwise;
    }

    List<String> all(String key) {
        return fields.getOrDefault(key, List.of());
    }

    int number(String key, int otherwise) {
        return has(key) ? Integer.parseUnsignedInt(text(key)) : otherwise;
    }

    Long wide(String key) {
        return has(key) ? Long.valueOf(text(key)) : null;
    }

    Integer narrow(String key) {
        return has(key) ? Integer.valueOf(text(key)) : null;
    }

    boolean flag(String key, boolean otherwise) {
        return has(key) ? text(key).equals("1") : otherwise;
    }

    /** The payloads of a publish: `count` of them, numbered. */
    List<byte[]> payloads() {
        List<byte[]> made = new ArrayList<>();
        int count = number("count", 1);
        for (int at = 0; at < count; at++) {
            String payload = text("payload", "");
            String each = count > 1 ? payload.replace("%", Integer.toString(at)) : payload;
            made.add(each.getBytes(StandardCharsets.UTF_8));
        }
        return made;
    }

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        fields.forEach((key, values) -> {
            for (String value : values) {
                text.append(text.length() == 0 ? "" : "&").append(encode(key)).append('=')
                    .append(encode(value));
            }
        });
        return text.toString();
    }
}
