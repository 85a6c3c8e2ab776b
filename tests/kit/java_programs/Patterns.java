import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** For each line, a pattern and texts in Base64: which texts Pattern.matches takes, as 1 and 0, or why it is refused. */
public class Patterns {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ");
            try {
                Pattern pattern = Pattern.compile(decoded(parts[0]));
                StringBuilder found = new StringBuilder("ok ");
                for (int i = 1; i < parts.length; i++)
                    found.append(pattern.matcher(decoded(parts[i])).matches() ? '1' : '0');
                System.out.println(found);
            } catch (PatternSyntaxException e) {
                System.out.println("refused " + Base64.getEncoder().encodeToString(e.getMessage().getBytes("UTF-8")));
            } catch (RuntimeException | StackOverflowError e) {
                System.out.println("failed " + e.getClass().getSimpleName());
            }
        }
    }

    private static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text.substring(1)), StandardCharsets.UTF_8);
    }
}
