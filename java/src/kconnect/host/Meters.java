package kconnect.host;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** The sessions whose plugins have metrics, and the thread that has them reported once a second, while there are any. */
final class Meters {
    private static final long EVERY_MS = 1000;
    private final Set<Meter> meters = ConcurrentHashMap.newKeySet();
    private Thread thread; // guarded by this

    synchronized void add(Meter meter) {
        meters.add(meter);
        if (thread != null) return;
        thread = new Thread(this::run, "kconnect-metrics");
        thread.setDaemon(true);
        thread.start();
    }

    void remove(Meter meter) {
        meters.remove(meter);
    }

    private void run() {
        do {
            try {
                Thread.sleep(EVERY_MS);
                for (Meter meter : meters) tell(meter);
            } catch (InterruptedException e) {
                continue; // by a plugin: nobody else knows this thread
            }
        } while (!isOver());
    }

    private static void tell(Meter meter) {
        try {
            meter.tell();
        } catch (Throwable e) {
            Log.write(Meters.class.getName(), Log.ERROR, "The metrics of a plugin could not be read; those of others are", e);
        }
    }

    private synchronized boolean isOver() {
        if (!meters.isEmpty()) return false;
        thread = null;
        return true;
    }
}
