package kconnect.host;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.MBeanServerDelegate;
import javax.management.MBeanServerNotification;
import javax.management.MalformedObjectNameException;
import javax.management.Notification;
import javax.management.ObjectName;

/**
 * The MBeans that the worker's patterns choose, whose numbers Python is informed of while there are any. One belongs to the
 * session on whose thread it was registered, or on a thread that this has started; one that nobody's thread registered,
 * such as those of the JVM, to the oldest session. Each is read within a deadline; one that hangs keeps a thread of ours
 * and is left out, and the others are read.
 */
final class Beans {
    private static final long EVERY_MS = 2000;
    /** Longer where reading them takes long, as of ten thousand: a tenth of the time at most. */
    private static final long PAUSE_TIMES = 9;
    private static final long DEADLINE_MS = 1000;
    /** So many that hang at once make us stop asking those that were not asked before: each keeps a thread. */
    private static final int MOST_HANGING = 16;
    private static final String NAME = Beans.class.getName();

    private final Host host;
    private final List<ObjectName> patterns = new ArrayList<>();
    private final Map<ObjectName, Bean> beans = new ConcurrentHashMap<>();
    private final Set<Session> sessions = ConcurrentHashMap.newKeySet();
    private final CountDownLatch listens = new CountDownLatch(1);
    private final ExecutorService readers = Executors.newCachedThreadPool(reading -> thread(reading, "kconnect-mbean"));
    private Thread thread; // guarded by this
    private MBeanServer server; // set before `listens` is

    private static final class Bean {
        final ObjectName name;
        final Session owner;
        BeanReader reader;
        Future<List<Object>> reading; // of one that hangs
        boolean isReported;

        Bean(ObjectName name, Session owner) {
            this.name = name;
            this.owner = owner;
        }
    }

    Beans(Host host, Iterable<String> given) {
        this.host = host;
        for (String pattern : given) patterns.add(chosen(pattern));
    }

    private static ObjectName chosen(String pattern) {
        try {
            return new ObjectName(pattern);
        } catch (MalformedObjectNameException e) {
            throw new IllegalArgumentException("kconnect.java.mbeans has the pattern " + pattern + ": " + e.getMessage(), e);
        }
    }

    /** Begins to listen, on a thread of its own: the server of MBeans takes a while to be made. */
    void start() {
        if (patterns.isEmpty()) return;
        thread(this::listen, "kconnect-mbeans-start").start();
    }

    /** A session with a plugin that may register some. Waits until we listen. */
    void join(Session session) {
        if (patterns.isEmpty()) return;
        try {
            listens.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // the call of the plugin ends early anyway
        }
        sessions.add(session);
        wake();
    }

    void leave(Session session) {
        sessions.remove(session);
        beans.values().removeIf(bean -> bean.owner == session);
    }

    private void listen() {
        try {
            server = ManagementFactory.getPlatformMBeanServer();
            server.addNotificationListener(MBeanServerDelegate.DELEGATE_NAME, this::heard, null, null);
            for (ObjectName pattern : patterns) {
                for (ObjectName name : server.queryNames(pattern, null)) beans.putIfAbsent(name, new Bean(name, null));
            }
        } catch (JMException | RuntimeException e) {
            Log.write(NAME, Log.ERROR, "MBeans of plugins cannot be read (kconnect.java.mbeans)", e);
        } finally {
            listens.countDown();
        }
    }

    /** On the thread that registers one. */
    private void heard(Notification reported, Object nothing) {
        ObjectName name = ((MBeanServerNotification) reported).getMBeanName();
        if (reported.getType().equals(MBeanServerNotification.UNREGISTRATION_NOTIFICATION)) {
            beans.remove(name);
        } else if (patterns.stream().anyMatch(pattern -> pattern.apply(name))) {
            beans.put(name, new Bean(name, Session.owner()));
            wake();
        }
    }

    private synchronized void wake() {
        if (thread != null || beans.isEmpty() || sessions.isEmpty()) return;
        thread = thread(this::run, "kconnect-mbeans");
        thread.start();
    }

    private void run() {
        Map<Session, List<Object>> reported = Map.of();
        do {
            try {
                long began = System.nanoTime();
                reported = tell(reported);
                Thread.sleep(Math.max(EVERY_MS, PAUSE_TIMES * (System.nanoTime() - began) / 1_000_000));
            } catch (InterruptedException e) {
                continue; // by a plugin: nobody else knows this thread
            } catch (Throwable e) {
                Log.write(NAME, Log.ERROR, "MBeans of plugins were not read; will be retried", e);
            }
        } while (!isOver(reported));
    }

    private synchronized boolean isOver(Map<Session, List<Object>> reported) {
        // What was reported of the last one must be taken back first
        if ((!beans.isEmpty() && !sessions.isEmpty()) || reported.values().stream().anyMatch(rows -> !rows.isEmpty())) return false;
        thread = null;
        return true;
    }

    /** Tells each session what has changed; gives what it knows now. */
    private Map<Session, List<Object>> tell(Map<Session, List<Object>> before) throws InterruptedException {
        Map<Session, List<Object>> now = new LinkedHashMap<>();
        Session oldest = sessions.stream().min(Comparator.comparingLong(Session::ordinal)).orElse(null);
        for (Session session : sessions) now.put(session, new ArrayList<>());
        for (Bean bean : beans.values()) {
            List<Object> rows = now.get(bean.owner == null ? oldest : bean.owner);
            if (rows != null) rows.addAll(read(bean));
        }
        now.forEach((session, rows) -> {
            if (rows.equals(before.getOrDefault(session, List.of()))) return;
            session.control().tell(Json.map("e", "mbeans", "session", session.id(), "arguments", rows));
        });
        return now;
    }

    /** Its numbers; none while it hangs. */
    private List<Object> read(Bean bean) throws InterruptedException {
        boolean isWaiting = bean.reading != null;
        if (!isWaiting) {
            if (beans.values().stream().filter(other -> other.reading != null).count() >= MOST_HANGING) return List.of();
            if (bean.reader == null) bean.reader = new BeanReader(server, bean.name, bean.owner);
            bean.reading = readers.submit(bean.reader::rows);
        }
        try {
            List<Object> found = bean.reading.get(isWaiting ? 0 : DEADLINE_MS, TimeUnit.MILLISECONDS);
            bean.reading = null;
            if (bean.isReported) say(bean, 20, "answers again");
            bean.isReported = false;
            return found;
        } catch (TimeoutException e) {
            if (!bean.isReported) say(bean, 30, "has not answered within " + DEADLINE_MS + " ms and is not shown until it does");
            bean.isReported = true;
        } catch (ExecutionException e) {
            bean.reading = null; // of the reader itself, as an OutOfMemoryError: tried again
        }
        return List.of();
    }

    private static void say(Bean bean, int level, String what) {
        Log.write(bean.owner, NAME, level, "MBean " + bean.name + " " + what + " (kconnect.java.mbeans)", null);
    }

    /** One that is no session's, whoever starts it. */
    private static Thread thread(Runnable does, String name) {
        Thread made = new Thread(null, does, name, 0, false);
        made.setDaemon(true);
        return made;
    }
}
