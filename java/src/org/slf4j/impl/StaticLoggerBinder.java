package org.slf4j.impl;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import kconnect.host.HostLogger;
import org.slf4j.ILoggerFactory;
import org.slf4j.Logger;
import org.slf4j.spi.LoggerFactoryBinder;

/** What slf4j 1.7 looks for: the loggers of the host. */
public final class StaticLoggerBinder implements LoggerFactoryBinder, ILoggerFactory {
    public static final String REQUESTED_API_VERSION = "1.6.99";
    private static final StaticLoggerBinder SINGLETON = new StaticLoggerBinder();
    private final Map<String, Logger> loggers = new ConcurrentHashMap<>();

    private StaticLoggerBinder() {}

    public static StaticLoggerBinder getSingleton() {
        return SINGLETON;
    }

    @Override
    public Logger getLogger(String name) {
        return loggers.computeIfAbsent(name, HostLogger::new);
    }

    @Override
    public ILoggerFactory getLoggerFactory() {
        return this;
    }

    @Override
    public String getLoggerFactoryClassStr() {
        return StaticLoggerBinder.class.getName();
    }
}
