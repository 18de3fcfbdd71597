package lock.interop;

import java.net.URI;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.SubscriptionMode;

/** A Redisson client of one server or of a cluster, configured to start quickly on a slow machine. */
final class Client implements AutoCloseable {

    private static final int NETTY_THREADS = 2;
    private static final int SUBSCRIPTION_CONNECTIONS = 2;
    private static final String CLUSTER = "redis-cluster://";

    private final Config config;
    private final RedissonClient redisson;

    Client(String uri, long watchdogMillis, int threads) {
        config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.setLockWatchdogTimeout(watchdogMillis);
        config.setThreads(threads);
        config.setNettyThreads(NETTY_THREADS);
        if (uri.startsWith(CLUSTER)) {
            useCluster(uri.substring(CLUSTER.length()).split(","), threads);
        } else {
            useServer(uri, threads);
        }
        redisson = Redisson.create(config);
    }

    private void useServer(String uri, int threads) {
        config.useSingleServer()
                .setAddress(uri)
                .setDatabase(database(uri))
                .setConnectionMinimumIdleSize(1)
                .setConnectionPoolSize(threads + 1)
                .setSubscriptionConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionPoolSize(SUBSCRIPTION_CONNECTIONS);
    }

    /** The pools of all masters and replicas are as small as that of a single server. */
    private void useCluster(String[] nodes, int threads) {
        ClusterServersConfig cluster = config.useClusterServers()
                .setReadMode(ReadMode.MASTER)
                .setSubscriptionMode(SubscriptionMode.MASTER)
                .setMasterConnectionMinimumIdleSize(1)
                .setMasterConnectionPoolSize(threads + 1)
                .setSubscriptionConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionPoolSize(SUBSCRIPTION_CONNECTIONS);
        for (String node : nodes) {
            cluster.addNodeAddress("redis://" + node);
        }
    }

    /** Returns the lock of a name, with the operations that this program needs. */
    NodeLock lock(String name, Kind kind) {
        return switch (kind) {
            case PLAIN -> new NodeLock.Plain(redisson.getLock(name));
            case FENCED -> new NodeLock.Fenced(redisson.getFencedLock(name));
        };
    }

    /** Returns Redisson's lock object, for operations that all kinds share. */
    RLock view(String name) {
        return redisson.getLock(name);
    }

    /** Returns a number in Redis that uses other connections than the lock. */
    Counter counter(String key) {
        return new Counter(Redisson.create(config), key);
    }

    /** Waits for Redisson's background requests, such as the removal of the latch of the last unlock. */
    @Override
    public void close() {
        redisson.shutdown();
    }

    /** Returns the database in the URI, which Redisson ignores. */
    private static int database(String uri) {
        String path = URI.create(uri).getPath();
        return path == null || path.length() < 2 ? 0 : Integer.parseInt(path.substring(1));
    }
}
