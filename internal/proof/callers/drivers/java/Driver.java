import java.io.*;
import java.net.URI;
import java.nio.file.Path;
import java.util.*;
import java.util.concurrent.Executors;
import java.util.regex.*;

class Driver {
    static final Pattern CALL = Pattern.compile("\"id\":(\\d+),\"script\":\"(\\w+)\".*\"keys\":(.*),\"args\":(.*)}");

    public static void main(String[] args) throws Exception {
        var nodes = Optional.ofNullable(System.getenv("SLUICE_CLUSTER")); // its first node is enough
        var at = nodes.map(list -> "redis://" + list.split(",")[0]).orElse(System.getenv("SLUICE_REDIS"));
        var limits = new Sluice(URI.create(at), Path.of(System.getenv("SLUICE_SCRIPTS")));
        var in = new BufferedReader(new InputStreamReader(System.in));
        var threads = Executors.newCachedThreadPool(); // a call each
        for (String line; (line = in.readLine()) != null; ) {
            var call = CALL.matcher(line);
            if (call.find()) threads.submit(() -> System.out.println("{\"id\":" + call.group(1) + answer(limits, call)));
        }
        System.exit(0); // Lettuce has threads of its own
    }

    private static List<byte[]> bytes(String list) {
        return Pattern.compile("\"(\\w*)\"").matcher(list).results().map(hex -> HexFormat.of().parseHex(hex.group(1))).toList();
    }

    private static String answer(Sluice limits, Matcher call) {
        try {
            var reply = limits.call(call.group(2), bytes(call.group(3)), bytes(call.group(4)));
            return ",\"granted\":" + (reply.get(0) > 0) + ",\"reply\":" + reply + "}";
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            var isReply = cause.getClass().getSimpleName().matches("JedisDataException|RedisCommandExecutionException"
                + "|Redis(Busy|Loading|ReadOnly|NoScript)Exception|Jedis(Busy|NoScript|AccessControl)Exception");
            var text = String.valueOf(cause.getMessage()).replaceAll("[\"\\\\\\p{Cntrl}]", " ");
            return ",\"error\":\"" + text + "\",\"kind\":\"" + (isReply ? "refused" : "unknown") + "\"}";
        }
    }
}
