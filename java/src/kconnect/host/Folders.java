package kconnect.host;

import java.io.IOException;
import java.net.MalformedURLException;
import java.net.URL;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.isolation.PluginClassLoader;
import org.apache.kafka.connect.runtime.isolation.PluginUtils;

/**
 * Plugin folders, isolated from each other as in Java Connect: a PluginClassLoader each, and above all of them one that
 * knows in which folder a plugin's class is. Nothing is scanned: Python has read the names.
 * Source: o.a.k.connect.runtime.isolation.DelegatingClassLoader.
 */
final class Folders extends ClassLoader {
    private final Map<String, String> index;
    private final Map<String, ClassLoader> loaders = new ConcurrentHashMap<>();

    Folders(Map<String, String> index) {
        super(Folders.class.getClassLoader());
        this.index = index;
    }

    /** The loader of a folder or jar; without one that of Kafka's own classes. */
    ClassLoader loader(String folder) {
        return folder == null ? getParent() : loaders.computeIfAbsent(folder, this::open);
    }

    /** A new object of a class in a folder, made with its own loader as the thread's. */
    <T> T make(String name, String folder, Class<T> kind) throws ReflectiveOperationException {
        ClassLoader loader = loader(folder);
        try (Swap swap = new Swap(loader)) {
            Class<?> found = Class.forName(name, true, loader);
            if (!kind.isAssignableFrom(found)) {
                throw new ConnectException(name + " is no " + kind.getSimpleName());
            }
            return kind.cast(found.getDeclaredConstructor().newInstance());
        } catch (java.lang.reflect.InvocationTargetException e) {
            if (e.getCause() instanceof RuntimeException cause) throw cause;
            if (e.getCause() instanceof Error cause) throw cause;
            throw e;
        }
    }

    /** Another plugin's class that a plugin names, as its converter. */
    @Override
    protected Class<?> findClass(String name) throws ClassNotFoundException {
        String folder = index.get(name);
        if (folder == null) throw new ClassNotFoundException(name);
        return ((PluginClassLoader) loader(folder)).loadClass(name);
    }

    private ClassLoader open(String folder) {
        try {
            Path top = Path.of(folder);
            List<URL> urls = new ArrayList<>();
            List<Path> found = folder.endsWith(".jar") ? List.of(top) : PluginUtils.pluginUrls(top);
            for (Path path : found) urls.add(path.toUri().toURL());
            return new PluginClassLoader(top.toUri().toURL(), urls.toArray(new URL[0]), this);
        } catch (MalformedURLException e) {
            throw new ConnectException(folder + " is no folder of plugins", e);
        } catch (IOException e) {
            throw new ConnectException("The plugin folder " + folder + " cannot be read", e);
        }
    }
}
