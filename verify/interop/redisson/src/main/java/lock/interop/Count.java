package lock.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

/** Threads that together pass through a number of sections, each of which increments an unprotected counter. */
record Count(String name, Kind kind, int threads, int sections, String key) implements Command {

    static Count parse(Invocation it) {
        it.want(5);
        return new Count(it.text(0), it.kind(1), it.number(2), it.number(3), it.text(4));
    }

    @Override
    public void run(Client client, Lines lines) throws Exception {
        NodeLock lock = client.lock(name, kind);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try (Counter counter = client.counter(key)) {
            lines.say("ready");
            lines.expect("go");
            AtomicInteger left = new AtomicInteger(sections);
            List<Future<List<Grant>>> workers = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                workers.add(pool.submit(() -> work(lock, counter, left)));
            }
            int done = 0;
            for (Future<List<Grant>> worker : workers) {
                List<Grant> grants = worker.get();
                done += grants.size();
                report(grants, lines);
            }
            lines.say("done", "\"sections\":" + done);
        } finally {
            pool.shutdown();
        }
    }

    private static List<Grant> work(NodeLock lock, Counter counter, AtomicInteger left) {
        List<Grant> grants = new ArrayList<>();
        while (left.getAndDecrement() > 0) {
            grants.add(lock.acquire());
            try {
                counter.increment();
            } finally {
                lock.release();
            }
        }
        return grants;
    }

    private void report(List<Grant> grants, Lines lines) {
        if (kind == Kind.FENCED) {
            grants.forEach(grant -> lines.say("token", grant.fields()));
        }
    }
}
