package lock.interop;

import java.time.Instant;
import java.time.temporal.ChronoUnit;

/** The clock which other processes on this machine can read too. */
final class WallClock {

    private WallClock() {}

    /** Microseconds since the epoch. */
    static long micros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }
}
