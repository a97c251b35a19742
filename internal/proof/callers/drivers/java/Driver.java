import java.util.*;
import java.util.regex.*;

class Driver {
    public static void main(String[] none) throws Exception {
        var at = System.getenv().getOrDefault("SLUICE_CLUSTER", System.getenv("SLUICE_REDIS")); // its first node
        var uri = java.net.URI.create("redis://" + at.replaceAll("redis://|,.*", ""));
        var limits = new Sluice(uri, java.nio.file.Path.of(System.getenv("SLUICE_SCRIPTS")));
        var line = Pattern.compile("\"id\":(\\d+),\"script\":\"(\\w+)\".*\"keys\":(.*),\"args\":(.*)}");
        new Scanner(System.in).findAll(line).forEach(call ->
            new Thread(() -> System.out.println("{\"id\":" + call.group(1) + answer(limits, call) + "}")).start());
        System.exit(0); // Lettuce has threads of its own
    }
    static List<byte[]> words(String list) {
        var words = Pattern.compile("\"(\\w*)\"").matcher(list).results();
        return words.map(hex -> HexFormat.of().parseHex(hex.group(1))).toList();
    }
    static String answer(Sluice limits, MatchResult call) {
        try {
            var reply = limits.call(call.group(2), words(call.group(3)), words(call.group(4)));
            return ",\"granted\":" + (reply.get(0) > 0) + ",\"reply\":" + reply;
        } catch (Exception e) {
            var error = e.getCause() == null ? e : e.getCause();
            var isReply = error instanceof redis.clients.jedis.exceptions.JedisDataException
                || error instanceof io.lettuce.core.RedisCommandExecutionException;
            var text = String.valueOf(error.getMessage()).replaceAll("[\"\\\\\\p{Cntrl}]", " ");
            return ",\"kind\":\"" + (isReply ? "refused" : "unknown") + "\",\"error\":\"" + text + "\"";
        }
    }
}
