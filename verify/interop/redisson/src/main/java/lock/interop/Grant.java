package lock.interop;

/** A token, or null if the lock draws none, and the wall clock right after the grant. */
record Grant(Long token, long atMicros) {

    static Grant now(Long token) {
        return new Grant(token, WallClock.micros());
    }

    /** Returns its fields in a report. */
    String fields() {
        return "\"token\":" + token + ",\"at\":" + atMicros;
    }
}
