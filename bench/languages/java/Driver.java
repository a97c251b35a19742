import static java.nio.charset.StandardCharsets.UTF_8;

import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.distributed.ExpirationAfterWriteStrategy;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.lettuce.core.RedisClient;
import io.lettuce.core.codec.*;
import java.io.*;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.*;
import org.redisson.Redisson;
import org.redisson.api.*;
import org.redisson.config.Config;

/** Asks one limiter, as bench/drivers.go says. A class Sluice is beside it: the caller for Lettuce in docs/clients. */
class Driver {
    interface Limiter { boolean take(String subject) throws Exception; }

    public static void main(String[] args) throws Exception {
        var url = "redis://" + args[1] + ":" + args[2];
        long permits = Long.parseLong(args[3]);
        var window = Duration.ofSeconds(Long.parseLong(args[4]));
        Limiter limiter = switch (args[0]) {
            case "RRateLimiter" -> redisson(url, permits, window);
            case "bucket4j" -> bucket4j(url, permits, window);
            default -> sluice(url, Arrays.copyOfRange(args, 6, args.length));
        };
        System.out.println("ready");
        var in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            try {
                boolean clock = line.equals("clock");
                System.out.println(clock ? System.currentTimeMillis() : limiter.take(line.split(" ", 2)[1]) ? 1 : 0);
            } catch (Exception error) {
                System.out.println("!" + error.toString().replace('\n', ' '));
            }
        }
        System.exit(0); // the clients have threads of their own
    }

    static Limiter redisson(String url, long permits, Duration window) {
        var config = new Config();
        config.useSingleServer().setAddress(url);
        var redisson = Redisson.create(config);
        var limiters = new HashMap<String, RRateLimiter>();
        return subject -> limiters.computeIfAbsent(subject, name -> {
            var limiter = redisson.getRateLimiter(name);
            limiter.trySetRate(RateType.OVERALL, permits, window);
            return limiter;
        }).tryAcquire();
    }

    static Limiter bucket4j(String url, long permits, Duration window) {
        var connection = RedisClient.create(url).connect(RedisCodec.of(StringCodec.UTF8, ByteArrayCodec.INSTANCE));
        var buckets = Bucket4jLettuce.casBasedBuilder(connection).expirationAfterWrite(
            ExpirationAfterWriteStrategy.basedOnTimeForRefillingBucketUpToMax(Duration.ofSeconds(10))).build();
        var refilled = BucketConfiguration.builder()
            .addLimit(limit -> limit.capacity(permits).refillGreedy(permits, window)).build();
        return subject -> buckets.getProxy(subject, () -> refilled).tryConsume(1);
    }

    static Limiter sluice(String url, String[] call) {
        var limits = new Sluice(URI.create(url), Path.of("../../../scripts"));
        var args = Arrays.stream(call).skip(2).map(String::getBytes).toList();
        return subject -> {
            var key = "sluice:bench:{" + subject + "}:" + call[1];
            return limits.call(call[0], List.of(key.getBytes(UTF_8)), args).get(0) == 1;
        };
    }
}
