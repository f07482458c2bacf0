package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/property"
)

const someURN = resource.URN("urn:pulumi:dev::shop::pkotest:index:Thing::a")

// during is the context of an operation on a new and empty cloud.
func during(t *testing.T, properties map[string]property.Value) (context.Context, cloud) {
	t.Setenv("PKOTEST_CLOUD", t.TempDir())
	return withOperation(t.Context(), someURN, property.NewMap(properties)), openCloud()
}

func opsOf(entries []entry) string {
	var ops []string
	for _, e := range entries {
		ops = append(ops, strings.TrimSuffix(e.Op+":"+e.Reason, ":"))
	}
	return strings.Join(ops, " ")
}

func ptr[T any](v T) *T { return &v }

func TestSecretsAreNeverStoredInClear(t *testing.T) {
	ctx, c := during(t, map[string]property.Value{
		"value":      property.New("hidden-value").WithSecret(true),
		"failUpdate": property.New("hidden-message").WithSecret(true),
	})
	args := ThingArgs{
		Value: "hidden-value", Secret: ptr("hidden-secret"),
		FailUpdate: ptr("hidden-message"), ReplaceOn: ptr("in the open"),
	}
	made, err := Thing{}.Create(ctx, infer.CreateRequest[ThingArgs]{Name: "a", Inputs: args})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Thing{}.Update(ctx, infer.UpdateRequest[ThingArgs, ThingState]{
		ID: made.ID, State: made.Output, Inputs: args,
	})
	if err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("update: %v", err)
	}
	all := everythingIn(t, c)
	if strings.Contains(all, "hidden") || !strings.Contains(all, "in the open") {
		t.Errorf("in the cloud: %s", all)
	}
	read, err := Thing{}.Read(ctx, infer.ReadRequest[ThingArgs, ThingState]{
		ID: made.ID, Inputs: args, State: made.Output,
	})
	if err != nil || read.Inputs.Value != "hidden-value" || *read.Inputs.Secret != "hidden-secret" {
		t.Errorf("secrets look like drift: %+v, %v", read.Inputs, err)
	}
}

func TestLifeOfAThing(t *testing.T) {
	ctx, c := during(t, nil)
	args := ThingArgs{Value: "one", LargeBytes: ptr(33), FailCreateOnce: ptr(true)}
	if _, err := (Thing{}).Create(ctx, infer.CreateRequest[ThingArgs]{Name: "a", Inputs: args}); err == nil {
		t.Error("the first create must fail")
	}
	made, err := Thing{}.Create(ctx, infer.CreateRequest[ThingArgs]{Name: "a", Inputs: args})
	if err != nil || !strings.HasPrefix(made.ID, "a-") || len(made.Output.Large) != 33 {
		t.Fatalf("create: %+v, %v", made, err)
	}
	args.Value = "two"
	next, err := Thing{}.Update(ctx, infer.UpdateRequest[ThingArgs, ThingState]{
		ID: made.ID, State: made.Output, Inputs: args,
	})
	if err != nil || next.Output.Generation != 2 {
		t.Fatalf("update: %+v, %v", next, err)
	}
	for range 2 {
		_, err := Thing{}.Delete(ctx, infer.DeleteRequest[ThingState]{ID: made.ID, State: next.Output})
		if err != nil {
			t.Fatal(err)
		}
	}
	read, err := Thing{}.Read(ctx, infer.ReadRequest[ThingArgs, ThingState]{ID: made.ID})
	if err != nil || read.ID != "" {
		t.Errorf("read of what is gone: %+v, %v", read, err)
	}
	want := "create-started create-failed:failCreateOnce: the first create fails " +
		"create-started create update delete delete:already gone read:gone"
	if got := opsOf(ledgerOf(t, c)); got != want {
		t.Errorf("ledger\n got %s\nwant %s", got, want)
	}
}

func TestCancelledCreateLeavesNoThing(t *testing.T) {
	ctx, c := during(t, nil)
	ctx, cancel := context.WithCancel(ctx)
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := Thing{}.Create(ctx, infer.CreateRequest[ThingArgs]{
		Name: "a", Inputs: ThingArgs{Value: "v", CreateSeconds: ptr(60.0)},
	})
	if err == nil || err.Error() != "cancelled" {
		t.Errorf("create: %v", err)
	}
	entries := ledgerOf(t, c)
	if got := opsOf(entries); got != "create-started create-failed:cancelled" {
		t.Errorf("ledger %s", got)
	}
	if _, err := c.get(entries[0].ID); err == nil {
		t.Error("the thing was made all the same")
	}
}

func TestPreviewDoesNotTouchTheCloud(t *testing.T) {
	ctx, c := during(t, nil)
	args := ThingArgs{Value: "v", FailCreate: ptr("no"), FailUpdate: ptr("no")}
	_, createErr := Thing{}.Create(ctx, infer.CreateRequest[ThingArgs]{Name: "a", Inputs: args, DryRun: true})
	_, updateErr := Thing{}.Update(ctx, infer.UpdateRequest[ThingArgs, ThingState]{
		ID: "a-0a1b2c3d", Inputs: args, DryRun: true,
	})
	if createErr != nil || updateErr != nil || everythingIn(t, c) != "" {
		t.Errorf("create %v, update %v, cloud %q", createErr, updateErr, everythingIn(t, c))
	}
}
