package main

// rule says what one package's production code may import. Test files are free to import any
// package but commands, which they would drag in for one helper, and what lies beside the product.
type rule struct {
	path     string   // below the module; a name that ends in /... stands for every package below it too
	ours     []string // packages of this module, spelled in the same way
	external []string // modules, or anyModule; the standard library is always allowed
}

const anyModule = "*"

// rules is the table of DESIGN.md. A package without a row is an error, so that a new one is
// placed on purpose. The first row that fits counts.
var rules = []rule{
	{"cmd/preloop", []string{"commands"}, nil},

	{"commands/config", []string{"queue", "queue/trigger", "queue/target", "breaker", "github"}, []string{anyModule}},
	{"commands/...", []string{"commands/...", "queue/...", "breaker", "github/..."}, []string{anyModule}},

	{"queue", nil, nil},
	{"queue/codec", nil, []string{"github.com/klauspost/compress"}},
	{"queue/queuetest", []string{"queue", "breaker"}, []string{anyModule}},
	{"queue/sqlite", []string{"queue", "queue/codec", "breaker"}, []string{"modernc.org/sqlite", "github.com/google/uuid", "golang.org/x/sync"}},
	{"queue/postgres", []string{"queue", "queue/codec", "breaker"}, []string{"github.com/jackc/pgx/v5", "github.com/google/uuid", "golang.org/x/sync"}},
	{"queue/trigger", []string{"queue"}, []string{"cel.dev/cel-go", "google.golang.org/protobuf"}},
	{"queue/target", []string{"queue"}, nil},
	{"queue/api", []string{"queue", "breaker"}, []string{"github.com/prometheus/client_golang"}},
	{"queue/dashboard", []string{"queue", "queue/api", "breaker"}, []string{"golang.org/x/time"}},

	{"breaker", nil, nil},

	{"github", []string{"breaker"}, []string{"github.com/golang-jwt/jwt/v5", "github.com/cli/go-gh/v2", "golang.org/x/time"}},
	{"github/webhook", []string{"github", "queue"}, nil},
	{"github/watchdog", []string{"github"}, nil},
	{"github/appcheck", []string{"github"}, nil},

	{"fixtures/...", []string{"fixtures/..."}, nil},
	{"scripts/...", []string{"scripts/...", "fixtures/...", "queue/...", "breaker", "github/..."}, []string{anyModule}},
}

// testOnly are packages and modules that production code never imports.
var (
	testOnlyOurs    = []string{"queue/queuetest", "fixtures/..."}
	testOnlyModules = []string{
		"pgregory.net/rapid", // MPL-2.0: it must not be shipped
		"github.com/google/go-cmp",
		"github.com/rogpeppe/go-internal",
		"go.uber.org/goleak",
		"github.com/chromedp/chromedp",
		"github.com/santhosh-tekuri/jsonschema/v6",
	}
)
