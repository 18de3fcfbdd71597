package lock.interop;

import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;

/** A lock of either kind, taken without a lease time, so that Redisson's watchdog renews it. */
interface NodeLock {

    /** Waits for the lock and returns the grant. */
    Grant acquire();

    RLock redisson();

    default void release() {
        redisson().unlock();
    }

    /** A lock that draws no tokens. */
    record Plain(RLock redisson) implements NodeLock {
        @Override
        public Grant acquire() {
            redisson.lock();
            return Grant.now(null);
        }
    }

    /** A lock that draws a token for each grant. */
    record Fenced(RFencedLock redisson) implements NodeLock {
        @Override
        public Grant acquire() {
            Long token = redisson.lockAndGetToken();
            return Grant.now(token);
        }
    }
}
