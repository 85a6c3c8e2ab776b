package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import org.apache.kafka.connect.errors.ConnectException;

/** Questions to Python: on the session's own connection while it serves a call, else on the control connection. */
final class Upcall {
    private final Session session;

    Upcall(Session session) {
        this.session = session;
    }

    /** Python's answer. Errors: ConnectException with its sentence. */
    JsonNode ask(String what, Object arguments) {
        JsonNode answer = Session.current() == session
                ? inline(what, arguments)
                : session.control().ask(session.id(), what, arguments);
        if (answer.hasNonNull("error")) throw new ConnectException(answer.get("error").asText());
        return answer.get("result");
    }

    /** Tells Python something that needs no answer. */
    void tell(String what, Object arguments) {
        session.control().tell(Json.map("e", what, "session", session.id(), "arguments", arguments));
    }

    /** Tells Python something that arrives before the end of the call that is served, if one is. */
    void tellInTurn(String what, Object arguments) {
        if (Session.current() == session) ask(what, arguments);
        else tell(what, arguments);
    }

    private JsonNode inline(String what, Object arguments) {
        try {
            session.wire().send(Wire.UPCALL, Json.map("what", what, "arguments", arguments));
            var body = session.wire().answer();
            if (body == null) throw new ConnectException("The worker is gone");
            return Json.read(body);
        } catch (IOException e) {
            throw new ConnectException("The worker is gone", e);
        }
    }
}
