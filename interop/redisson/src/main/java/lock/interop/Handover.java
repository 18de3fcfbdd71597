package lock.interop;

/**
 * Rounds of taking the lock, and giving it away when told to, with the times of both.
 *
 * <p>Redisson's locks are not fair: without a pause after the unlock, this thread often takes the lock again before
 * a waiter has heard of it.
 */
record Handover(String name, Kind kind, int rounds, int pauseMillis) implements Command {

    static Handover parse(Invocation it) {
        it.want(3, 4);
        int pauseMillis = it.args().size() > 3 ? it.number(3) : 0;
        return new Handover(it.text(0), it.kind(1), it.number(2), pauseMillis);
    }

    @Override
    public void run(Client client, Lines lines) throws Exception {
        NodeLock lock = client.lock(name, kind);
        for (int round = 0; round < rounds; round++) {
            lines.say("held " + lock.acquire());
            lines.expect("release");
            lines.say("releasing at=" + WallClock.micros());
            lock.release();
            Thread.sleep(pauseMillis);
        }
        lines.say("done rounds=" + rounds);
    }
}
