package kconnect.host;

/** Gives the thread another class loader for a block: plugins look for their classes with it. */
final class Swap implements AutoCloseable {
    private static volatile ClassLoader ofKafka = Swap.class.getClassLoader();

    private final ClassLoader before = Thread.currentThread().getContextClassLoader();

    Swap(ClassLoader loader) {
        Thread.currentThread().setContextClassLoader(loader);
    }

    Swap(Object plugin) {
        this(seen(plugin.getClass().getClassLoader()));
    }

    /**
     * Kafka's own plugins, such as MirrorMaker's, see the plugins of all folders from now on: a setting of theirs may
     * name one. Source: o.a.k.connect.runtime.isolation.Plugins.connectorLoader, for what is on the class path.
     */
    static void letKafkaSee(Folders folders) {
        ofKafka = folders;
    }

    private static ClassLoader seen(ClassLoader own) {
        return own == Swap.class.getClassLoader() ? ofKafka : own;
    }

    @Override
    public void close() {
        Thread.currentThread().setContextClassLoader(before);
    }
}
