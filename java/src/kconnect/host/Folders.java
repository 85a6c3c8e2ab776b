package kconnect.host;

import java.io.IOException;
import java.io.InputStream;
import java.net.MalformedURLException;
import java.net.URL;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.isolation.PluginClassLoader;
import org.apache.kafka.connect.runtime.isolation.PluginUtils;
import org.apache.logging.log4j.LogManager;
import org.apache.maven.artifact.versioning.DefaultArtifactVersion;

/**
 * Plugin folders, isolated from each other as in Java Connect: a PluginClassLoader each, and above all of them one that
 * knows in which folder a plugin's class is. Nothing is scanned: Python has read the names.
 * Source: o.a.k.connect.runtime.isolation.DelegatingClassLoader.
 */
final class Folders extends ClassLoader {
    static {
        ClassLoader.registerAsParallelCapable(); // or the JVM locks it while it asks a folder's loader, and that asks here
    }

    private final Map<String, List<String>> index;
    private final Aliases aliases;
    private final Map<String, ClassLoader> loaders = new ConcurrentHashMap<>();

    /** `index` are the folders of each plugin's class, `kinds` what it is. */
    Folders(Map<String, List<String>> index, Map<String, List<String>> kinds) {
        super(Folders.class.getClassLoader());
        this.index = index;
        this.aliases = new Aliases(kinds, getParent());
    }

    /** The loader of a folder or jar; without one that of Kafka's own classes. */
    ClassLoader loader(String folder) {
        return folder == null ? getParent() : loaders.computeIfAbsent(folder, this::open);
    }

    /** A new object of a class in a folder, made with its own loader as the thread's. */
    <T> T make(String name, String folder, Class<T> kind) throws ReflectiveOperationException {
        ClassLoader loader = loader(folder);
        try (Swap swap = new Swap(folder == null ? this : loader)) {
            Class<?> found = Class.forName(name, true, loader);
            if (!kind.isAssignableFrom(found)) {
                throw new ConnectException(name + " is no " + kind.getSimpleName());
            }
            return kind.cast(found.getDeclaredConstructor().newInstance());
        } catch (java.lang.reflect.InvocationTargetException e) {
            if (e.getCause() instanceof RuntimeException cause) throw cause;
            if (e.getCause() instanceof Error cause) throw cause;
            throw e;
        } catch (InstantiationException | NoSuchMethodException | IllegalAccessException e) {
            throw new ConnectException(name + " cannot be created: it has to be a public class that is not abstract, "
                    + "with a public constructor that takes nothing", e);
        }
    }

    /** Kafka's class, or a plugin's: without a lock of ours while that is made, for it may ask here on other threads. */
    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        try {
            return super.loadClass(name, resolve);
        } catch (ClassNotFoundException e) {
            String meant = name.indexOf('.') < 0 ? aliases.className(name) : null;
            return meant == null ? pluginClass(name) : loadClass(meant, resolve);
        }
    }

    /**
     * Another plugin's class that a plugin names, as its converter. What is not isolated, as most of Kafka's packages,
     * a folder's loader asks for here before it looks at its own. Source: DelegatingClassLoader.pluginClassLoader.
     */
    private Class<?> pluginClass(String name) throws ClassNotFoundException {
        List<String> places = index.get(name);
        if (places == null || !PluginUtils.shouldLoadInIsolation(name)) throw new ClassNotFoundException(name);
        PluginClassLoader loader = (PluginClassLoader) loader(newest(name, places));
        // A manifest may name a class that is not there, for which the folder's loader would ask here again
        if (loader.findResource(name.replace('.', '/') + ".class") == null) throw new ClassNotFoundException(name);
        return loader.loadClass(name);
    }

    /** The folder with the newest version of a class, the last of those that have it. */
    private String newest(String name, List<String> places) {
        String found = places.get(0);
        DefaultArtifactVersion best = null;
        for (String place : places.size() == 1 ? List.<String>of() : places) {
            try {
                DefaultArtifactVersion version = new DefaultArtifactVersion(version(make(name, place, Object.class)));
                if (best != null && version.compareTo(best) < 0) continue;
                best = version;
                found = place;
            } catch (ReflectiveOperationException | LinkageError | RuntimeException e) {
                continue; // Java Connect does not know it as a plugin either
            }
        }
        return found;
    }

    /** Source: o.a.k.connect.runtime.isolation.PluginScanner.versionFor, PluginDesc. */
    static String version(Object plugin) {
        try (Swap swap = new Swap(plugin)) {
            return plugin instanceof Versioned versioned ? String.valueOf(versioned.version()) : "undefined";
        } catch (RuntimeException | LinkageError e) {
            return "undefined";
        }
    }

    private ClassLoader open(String folder) {
        try {
            Path top = Path.of(folder);
            List<URL> urls = new ArrayList<>();
            List<Path> found = folder.endsWith(".jar") ? List.of(top) : PluginUtils.pluginUrls(top);
            for (Path path : found) urls.add(path.toUri().toURL());
            Loader made = new Loader(top.toUri().toURL(), urls.toArray(new URL[0]), this);
            if (made.hasLog4j()) beginKafkasLog4j();
            return made;
        } catch (MalformedURLException e) {
            throw new ConnectException(folder + " is no folder of plugins", e);
        } catch (IOException e) {
            throw new ConnectException("The plugin folder " + folder + " cannot be read", e);
        }
    }

    /** Else it would take its own parts from the folder of the plugin that asks first. */
    private void beginKafkasLog4j() {
        try (Swap swap = new Swap(getParent())) {
            LogManager.getLogger(Folders.class);
        }
    }

    /** That of a folder. One with a log4j of its own has our part of that of its own, too. */
    private static final class Loader extends PluginClassLoader {
        static {
            ClassLoader.registerAsParallelCapable(); // as PluginClassLoader is
        }

        private static final StackWalker WALKER = StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE);
        private static final Pattern ASKING = Pattern.compile(
                "org\\.apache\\.logging\\.log4j\\.core\\.config\\.|" + Pattern.quote(LogOfLog4j.class.getName()));
        private static final String LOG4J = "org/apache/logging/log4j/core/config/ConfigurationFactory.class";

        Loader(URL location, URL[] urls, ClassLoader parent) {
            super(location, urls, parent);
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith(LogOfLog4j.class.getName())) return super.loadClass(name, resolve);
            if (!isForOwnLog4j()) return getParent().loadClass(name);
            synchronized (getClassLoadingLock(name)) {
                Class<?> found = findLoadedClass(name);
                return found != null ? found : made(name);
            }
        }

        boolean hasLog4j() {
            return findResource(LOG4J) != null;
        }

        /** Kafka's log4j asks here as well, as this is the thread's loader. */
        private boolean isForOwnLog4j() {
            return hasLog4j() && WALKER.walk(frames -> frames
                    .filter(frame -> frame.getDeclaringClass().getClassLoader() == this)
                    .anyMatch(frame -> ASKING.matcher(frame.getClassName()).lookingAt()));
        }

        private Class<?> made(String name) throws ClassNotFoundException {
            try (InputStream in = Folders.class.getClassLoader().getResourceAsStream(name.replace('.', '/') + ".class")) {
                byte[] body = in.readAllBytes();
                return defineClass(name, body, 0, body.length);
            } catch (IOException e) {
                throw new ClassNotFoundException(name, e);
            }
        }
    }
}
