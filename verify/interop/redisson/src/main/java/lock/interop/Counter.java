package lock.interop;

import org.redisson.api.RBucket;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** A number that loses updates unless a lock keeps its writers apart. */
final class Counter implements AutoCloseable {

    private final RedissonClient redisson;
    private final RBucket<String> bucket;

    Counter(RedissonClient redisson, String key) {
        this.redisson = redisson;
        this.bucket = redisson.getBucket(key, StringCodec.INSTANCE);
        bucket.get(); // connects before the first section
    }

    /** Sends a GET and, after its answer, a SET. */
    void increment() {
        String value = bucket.get();
        long next = value == null ? 1 : Long.parseLong(value) + 1;
        bucket.set(Long.toString(next));
    }

    @Override
    public void close() {
        redisson.shutdown();
    }
}
