package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/queue/api"
)

// SendCmd sends what GitHub would send.
type SendCmd struct {
	Event      string `arg:"" help:"The event, as issues or push."`
	Payload    string `placeholder:"FILE" help:"The payload, - for stdin; else one is made up."`
	Action     string `placeholder:"ACTION" help:"Of the payload that is made up; the usual one of the event unless given."`
	Repo       string `short:"R" default:"acme/widgets" placeholder:"OWNER/REPO" help:"Of the payload that is made up."`
	Number     int    `default:"7" help:"The issue or pull request of the payload that is made up."`
	Sender     string `default:"octocat" help:"Of the payload that is made up."`
	URL        string `name:"url" placeholder:"URL" help:"Where to; the configured server's webhook path unless given."`
	SecretFile string `placeholder:"FILE" help:"The webhook secret; $$PRELOOP_WEBHOOK_SECRET or the configuration's first unless given."`
	Delivery   string `placeholder:"ID" help:"The delivery's id; a new one unless given."`
	Form       bool   `help:"Send it form-encoded."`
	Output
}

// sent is what a server answered.
type sent struct {
	DeliveryID string `json:"delivery_id"`
	Status     string `json:"status"`
	HTTPStatus int    `json:"http_status"`
	Error      string `json:"error,omitempty"`
}

// Run sends one delivery. It exits 1 when the server refuses it.
func (c *SendCmd) Run(ctx context.Context, a *app) error {
	target, secret, err := c.target(a)
	if err != nil {
		return err
	}
	payload := c.sample()
	if c.Payload != "" {
		if payload, err = readFile(a.in, c.Payload); err != nil {
			return err
		}
	}
	id := c.Delivery
	if id == "" {
		id = uuid.NewString()
	}
	contentType := "application/json"
	if c.Form {
		payload, contentType = []byte(url.Values{"payload": {string(payload)}}.Encode()), "application/x-www-form-urlencoded"
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(payload))
	if err != nil {
		return usagef("--url: %w", err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", "GitHub-Hookshot/preloop-send")
	req.Header.Set("X-GitHub-Event", c.Event)
	req.Header.Set("X-GitHub-Delivery", id)
	req.Header.Set("X-Hub-Signature-256", github.Sign(secret, payload))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return fmt.Errorf("sending to %s: %w: %v; is `preloop serve` running there?", target, api.ErrUnreachable, err)
	}
	defer resp.Body.Close() //nolint:errcheck // read below
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w: %v", target, api.ErrUnreachable, err)
	}
	s := sent{DeliveryID: id, HTTPStatus: resp.StatusCode}
	_ = json.Unmarshal(answer, &s) // an answer that is not preloop's keeps its status
	if c.asJSON() {
		if err := c.print(a.out, s); err != nil {
			return err
		}
	} else if resp.StatusCode == http.StatusAccepted {
		if _, err := fmt.Fprintf(a.out, "%s\t%s\n", s.DeliveryID, s.Status); err != nil {
			return err
		}
	}
	if resp.StatusCode != http.StatusAccepted {
		if s.Error == "" {
			s.Error = http.StatusText(resp.StatusCode)
		}
		_, _ = fmt.Fprintf(a.err, "preloop: %s answered %d: %s\n", target, resp.StatusCode, s.Error)
		return errQuiet
	}
	return nil
}

// target says where to send and what signs it.
func (c *SendCmd) target(a *app) (target string, secret []byte, err error) {
	if c.SecretFile != "" {
		if secret, err = os.ReadFile(c.SecretFile); err != nil {
			return "", nil, usagef("--secret-file: %w", err)
		}
		secret = bytes.TrimRight(secret, "\r\n")
	}
	target = c.URL
	if target != "" && secret != nil {
		return target, secret, nil
	}
	cfg, err := a.load(config.Options{LenientSecrets: true})
	if err != nil {
		return "", nil, err
	}
	if target == "" {
		if target = cfg.ServerURL; target == "" {
			target = "http://" + cfg.Listen
		}
		target = strings.TrimSuffix(target, "/") + config.WebhookPath
	}
	if secret == nil {
		for _, s := range cfg.Sources() {
			for _, named := range s.Secrets {
				if named.Value.IsSet() {
					return target, []byte(named.Value.Reveal()), nil
				}
			}
		}
		return "", nil, usagef("send: there is no webhook secret to sign with; give --secret-file or set PRELOOP_WEBHOOK_SECRET")
	}
	return target, secret, nil
}

// sample makes up a payload of the event, small but in GitHub's shape.
func (c *SendCmd) sample() []byte {
	owner, name, _ := strings.Cut(c.Repo, "/")
	now := time.Now().UTC().Format(time.RFC3339)
	user := map[string]any{"login": c.Sender, "id": 583231, "type": "User"}
	if strings.HasSuffix(c.Sender, "[bot]") {
		user["type"] = "Bot"
	}
	p := map[string]any{
		"repository": map[string]any{"id": 1296269, "name": name, "full_name": c.Repo, "private": false, "default_branch": "main", "owner": map[string]any{"login": owner, "id": 1, "type": "Organization"}},
		"sender":     user,
	}
	action := ""
	issue := map[string]any{"number": c.Number, "title": "Widgets turn blue", "state": "open", "body": "They should be green.", "user": user, "created_at": now, "labels": []any{}}
	pull := map[string]any{
		"number": c.Number, "title": "Paint widgets green", "state": "open", "body": "As they should be.", "user": user, "draft": false, "created_at": now,
		"head": map[string]any{"ref": "green", "sha": "6dcb09b5b57875f334f61aebed695e2e4193db5e"}, "base": map[string]any{"ref": "main", "sha": "f95f852bd8fca8fcc58a9a2d6c842781e32a215e"},
	}
	switch c.Event {
	case "ping":
		p = map[string]any{"zen": "Keep it logically awesome.", "hook_id": 109948940, "hook": map[string]any{"type": "App", "id": 109948940, "active": true, "events": []string{"issues"}}}
	case "push":
		p["ref"], p["before"], p["after"] = "refs/heads/main", "f95f852bd8fca8fcc58a9a2d6c842781e32a215e", "6dcb09b5b57875f334f61aebed695e2e4193db5e"
		p["commits"] = []any{map[string]any{"id": "6dcb09b5b57875f334f61aebed695e2e4193db5e", "message": "Paint widgets green", "added": []string{}, "modified": []string{"widgets/paint.go"}, "removed": []string{}}}
		p["pusher"] = map[string]any{"name": c.Sender}
	case "issues":
		action, p["issue"] = "opened", issue
	case "issue_comment":
		action, p["issue"] = "created", issue
		p["comment"] = map[string]any{"id": 1, "body": "I can see that too.", "user": user, "created_at": now}
	case "pull_request":
		action, p["number"], p["pull_request"] = "opened", c.Number, pull
	case "pull_request_review":
		action, p["pull_request"] = "submitted", pull
		p["review"] = map[string]any{"id": 1, "state": "approved", "body": nil, "user": user}
	case "release":
		action, p["release"] = "published", map[string]any{"id": 1, "tag_name": "v" + strconv.Itoa(c.Number), "draft": false}
	default:
		if info, ok := github.LookupEvent(c.Event); ok && len(info.Actions) > 0 {
			action = info.Actions[0]
		}
	}
	if c.Action != "" {
		action = c.Action
	}
	if action != "" {
		p["action"] = action
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		panic(err) // strings and numbers only
	}
	return bytes.TrimSpace(b.Bytes())
}
