package lock.interop;

/** A token, or null from a lock which draws none, and the wall clock right after the grant. */
record Grant(Long token, long atMicros) {

    static Grant now(Long token) {
        return new Grant(token, WallClock.micros());
    }

    @Override
    public String toString() {
        return "token=" + (token == null ? "-" : token) + " at=" + atMicros;
    }
}
