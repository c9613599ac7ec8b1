import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.RenewDelegationTokenOptions;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.security.token.delegation.TokenInformation;

/** Commands of `Client` that create, renew, expire and describe delegation tokens. */
class Tokens {
    /** Their secrets, by the names that commands give them. */
    static final Map<String, byte[]> SECRETS = new HashMap<>();

    /**
     * name, and one of: create (renewers; optional owner, lifetime in ms), renew or expire (a period in ms; of expire,
     * a negative one removes the token at once).
     */
    static void change(JsonNode command) throws Exception {
        String name = command.get("name").asText();
        try (Admin admin = Admin.create(Client.at(command))) {
            if (command.has("renew")) {
                admin.renewDelegationToken(SECRETS.get(name), new RenewDelegationTokenOptions()
                    .renewTimePeriodMs(command.get("renew").asLong())).expiryTimestamp().get();
            } else if (command.has("expire")) {
                admin.expireDelegationToken(SECRETS.get(name), new ExpireDelegationTokenOptions()
                    .expiryTimePeriodMs(command.get("expire").asLong())).expiryTimestamp().get();
            } else {
                JsonNode create = command.get("create");
                List<KafkaPrincipal> renewers = new ArrayList<>();
                create.get("renewers").forEach(user -> renewers.add(new KafkaPrincipal("User", user.asText())));
                CreateDelegationTokenOptions options = new CreateDelegationTokenOptions().renewers(renewers);
                if (create.has("owner")) {
                    options.owner(new KafkaPrincipal("User", create.get("owner").asText()));
                }
                if (create.has("lifetime")) {
                    options.maxLifetimeMs(create.get("lifetime").asLong());
                }
                SECRETS.put(name, admin.createDelegationToken(options).delegationToken().get().hmac());
            }
        }
    }

    /** A line a token. */
    static void ask(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(Client.at(command))) {
            for (DelegationToken token : admin.describeDelegationToken().delegationTokens().get()) {
                TokenInformation one = token.tokenInfo();
                ObjectNode row = Client.JSON.createObjectNode().put("token_id", one.tokenId());
                row.put("owner", one.ownerAsString()).put("requester", one.tokenRequester().toString());
                var renewers = row.putArray("renewers");
                one.renewersAsString().forEach(renewers::add);
                row.put("issued", one.issueTimestamp()).put("expires", one.expiryTimestamp());
                row.put("max_time", one.maxTimestamp()).put("secret", token.hmacAsBase64String());
                Client.print(row);
            }
        }
    }
}
