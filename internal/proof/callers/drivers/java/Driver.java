import java.io.*;
import java.net.URI;
import java.nio.file.Path;
import java.util.*;
import java.util.concurrent.Executors;

class Driver {
    public static void main(String[] args) throws Exception {
        var limits = new Sluice(URI.create(args[0]), Path.of(args[1]));
        var in = new BufferedReader(new InputStreamReader(System.in));
        var threads = Executors.newCachedThreadPool(); // a call each
        for (String line; (line = in.readLine()) != null; ) {
            var fields = line.split(" ");
            int count = Integer.parseInt(fields[1]);
            var words = Arrays.stream(fields).skip(2).map(Driver::bytes).toList();
            var keys = words.subList(0, count);
            var values = words.subList(count, words.size());
            threads.submit(() -> System.out.println(answer(limits, fields[0], keys, values)));
        }
        System.exit(0); // Lettuce has threads of its own
    }

    private static byte[] bytes(String hex) { return HexFormat.of().parseHex(hex.replace("-", "")); }

    private static String answer(Sluice limits, String name, List<byte[]> keys, List<byte[]> args) {
        try {
            var reply = new StringJoiner(" ");
            limits.call(name, keys, args).forEach(value -> reply.add(value.toString()));
            return reply.toString();
        } catch (Exception error) {
            return "!" + (error.getCause() == null ? error : error.getCause()).getMessage();
        }
    }
}
