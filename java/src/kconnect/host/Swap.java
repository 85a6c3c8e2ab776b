package kconnect.host;

/** Gives the thread another class loader for a block: plugins look for their classes with it. */
final class Swap implements AutoCloseable {
    private final ClassLoader before = Thread.currentThread().getContextClassLoader();

    Swap(ClassLoader loader) {
        Thread.currentThread().setContextClassLoader(loader);
    }

    Swap(Object plugin) {
        this(plugin.getClass().getClassLoader());
    }

    @Override
    public void close() {
        Thread.currentThread().setContextClassLoader(before);
    }
}
