package appcheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-de999ace/preloop/github"
)

func (v *Verdict) problem(format string, args ...any) {
	v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
}

func inactive(f Facts, _ Expect, v *Verdict) {
	if !f.Active {
		v.problem("%s is switched off: GitHub sends nothing; tick Active at %s", f.Kind, v.SettingsURL)
	}
}

func drifted(f Facts, e Expect, v *Verdict) {
	switch {
	case f.Hook.URL == "":
		v.problem("%s has no delivery URL: GitHub sends nothing; set one at %s", f.Kind, v.SettingsURL)
		v.URLDrifted = e.URL != ""
	case e.URL != "" && !SameURL(f.Hook.URL, e.URL):
		v.URLDrifted = true
	}
}

func secretless(f Facts, _ Expect, v *Verdict) {
	if !f.Hook.HasSecret {
		v.problem("%s has no secret at GitHub: its deliveries are not signed, and every one is refused; set the one that is configured here at %s", f.Kind, v.SettingsURL)
	}
}

func contentType(f Facts, _ Expect, v *Verdict) {
	if t := f.Hook.ContentType; t != "" && t != "json" {
		v.problem("%s sends its payloads as %s: they are accepted, but grow by the encoding, and the largest do not get through; choose application/json at %s", f.Kind, t, v.SettingsURL)
	}
}

func insecureTLS(f Facts, _ Expect, v *Verdict) {
	if f.Hook.InsecureTLS {
		v.problem("GitHub does not verify this server's certificate for %s: anyone in between can read and drop deliveries; enable SSL verification at %s", f.Kind, v.SettingsURL)
	}
}

// events finds the subscriptions that triggers need. What GitHub sends always, implies by a
// permission or does not list is no finding, and neither is what is documented too vaguely.
func events(f Facts, e Expect, v *Verdict) {
	for _, need := range e.Needs {
		told := map[string]bool{}
		for _, on := range need.On {
			event, action, _ := strings.Cut(on, ".")
			info, known := github.LookupEvent(event)
			switch {
			case known && !deliverable(f.Kind, info):
				if need.Named && !told[event] {
					v.problem("trigger %s is dead: GitHub sends %s to %s, never to %s", need.Trigger, event, receivers(info), f.Kind)
				}
			case f.subscribed(event):
				if f.Kind == App {
					lacking(f, v, need.Trigger, info, action, true)
				}
			case f.Kind == App && known && (info.Subscription == github.SubscriptionUncertain || info.SentUnasked(f.Permissions)):
			case event == "ping":
			case told[event]:
			case f.Kind != App && !need.Named: // another source of the trigger may be meant
			default:
				v.MissingEvents = append(v.MissingEvents, event)
				if f.Kind != App {
					v.problem("trigger %s is dead here: the webhook does not send %s; tick it at %s", need.Trigger, event, v.SettingsURL)
				} else if !known || !lacking(f, v, need.Trigger, info, action, false) {
					v.problem("trigger %s is dead: the app is not subscribed to %s; tick it at %s", need.Trigger, event, permissionsPage(f, v.SettingsURL))
				}
			}
			told[event] = true
		}
	}
}

// lacking reports the permission that gates an event, if the app lacks it.
func lacking(f Facts, v *Verdict, trigger string, info github.EventInfo, action string, subscribed bool) bool {
	name, level, ok := info.MissingPermission(action, f.Permissions)
	if ok {
		return false
	}
	permission := name + ":" + level
	v.told[[2]string{trigger, permission}] = true
	v.MissingPermissions = append(v.MissingPermissions, permission)
	what := info.Name
	if action != "" {
		what += "." + action
	}
	if subscribed {
		v.problem("trigger %s is dead: GitHub sends %s only to an app with the permission %s; grant it at %s", trigger, what, permission, permissionsPage(f, v.SettingsURL))
	} else {
		v.problem("trigger %s is dead: the app is not subscribed to %s, which needs the permission %s; grant it, tick the event, and have the new permission accepted where the app is installed: %s", trigger, info.Name, permission, permissionsPage(f, v.SettingsURL))
	}
	return true
}

// permissions finds what triggers ask of GitHub beside the events themselves.
func permissions(f Facts, e Expect, v *Verdict) {
	if f.Kind != App {
		return
	}
	for _, need := range e.Needs {
		for _, name := range slices.Sorted(maps.Keys(need.Permissions)) {
			level := need.Permissions[name]
			if rank(f.Permissions[name]) >= rank(level) || v.told[[2]string{need.Trigger, name + ":" + level}] {
				continue
			}
			v.MissingPermissions = append(v.MissingPermissions, name+":"+level)
			v.problem("trigger %s needs the permission %s:%s, which the app lacks; grant it at %s", need.Trigger, name, level, permissionsPage(f, v.SettingsURL))
		}
	}
}

func rank(level string) int { return slices.Index([]string{"read", "write", "admin"}, level) }

func deliverable(k Kind, info github.EventInfo) bool {
	switch k {
	case RepoHook:
		return info.RepoHook
	case OrgHook:
		return info.OrgHook
	}
	return info.Subscription != github.SubscriptionNever
}

// receivers names what can receive an event.
func receivers(info github.EventInfo) string {
	var who []string
	for _, r := range []struct {
		can  bool
		name string
	}{{info.App, "apps"}, {info.RepoHook, "repository webhooks"}, {info.OrgHook, "organization webhooks"}, {info.EnterpriseHook, "enterprise webhooks"}} {
		if r.can {
			who = append(who, r.name)
		}
	}
	if len(who) == 0 {
		return "others"
	}
	return strings.Join(who, " and ")
}
