import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/** Kafka's command-line tools, in this process, of each release from 2.8 on. */
class Tool {
    static String[] arguments(JsonNode command) {
        List<String> arguments = new ArrayList<>(List.of("--bootstrap-server", command.get("at").asText()));
        command.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        return arguments.toArray(new String[0]);
    }

    /** main, the tool's class; arguments behind those that name the broker. A line: what it says. */
    static void run(JsonNode command) throws Exception {
        Method main = Class.forName(command.get("main").asText()).getMethod("main", String[].class);
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(said, true, StandardCharsets.UTF_8);
        PrintStream before = System.out;
        Exit.Procedure exit = (status, message) -> {
            if (status != 0) {
                throw new IllegalStateException(message + ": " + said.toString(StandardCharsets.UTF_8));
            }
        };
        System.setOut(stream);
        Exit.setExitProcedure(exit);
        try {
            scala.Console.withOut(stream, () -> {
                try {
                    return main.invoke(null, (Object) arguments(command));
                } catch (InvocationTargetException error) {
                    throw new IllegalStateException(error.getCause());
                } catch (IllegalAccessException error) {
                    throw new IllegalStateException(error);
                }
            });
        } finally {
            Exit.resetExitProcedure();
            System.setOut(before);
        }
        Client.print(Client.JSON.createObjectNode().put("said", said.toString(StandardCharsets.UTF_8)));
    }
}
