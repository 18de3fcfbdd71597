package lock.interop;

import java.time.Instant;
import java.time.temporal.ChronoUnit;

/** The wall clock, which all processes on this machine share. */
final class WallClock {

    private WallClock() {}

    /** Microseconds since the epoch. */
    static long micros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }
}
