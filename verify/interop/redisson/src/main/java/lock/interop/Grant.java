package lock.interop;

/** A token, or null from a lock which draws none, and the wall clock right after the grant. */
record Grant(Long token, long atMicros) {

    static Grant now(Long token) {
        return new Grant(token, WallClock.micros());
    }

    /** Its fields in a report. */
    String fields() {
        return "\"token\":" + token + ",\"at\":" + atMicros;
    }
}
