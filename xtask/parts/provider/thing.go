package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	p "github.com/pulumi/pulumi-go-provider"
	"github.com/pulumi/pulumi-go-provider/infer"
)

// Thing is the resource pkotest:index:Thing. It does what its inputs ask for,
// well or badly, and leaves its traces in the pretend cloud.
type Thing struct{}

// ThingArgs are the inputs. The JSON names are for the file in the cloud. All
// but the value are pointers, so that an input that is not given stays away in
// the file as well, and does not come back as drift.
type ThingArgs struct {
	Value          string   `pulumi:"value" json:"value"`
	CreateSeconds  *float64 `pulumi:"createSeconds,optional" json:"createSeconds,omitempty"`
	UpdateSeconds  *float64 `pulumi:"updateSeconds,optional" json:"updateSeconds,omitempty"`
	DeleteSeconds  *float64 `pulumi:"deleteSeconds,optional" json:"deleteSeconds,omitempty"`
	FailCreate     *string  `pulumi:"failCreate,optional" json:"failCreate,omitempty"`
	FailUpdate     *string  `pulumi:"failUpdate,optional" json:"failUpdate,omitempty"`
	FailDelete     *string  `pulumi:"failDelete,optional" json:"failDelete,omitempty"`
	FailCreateOnce *bool    `pulumi:"failCreateOnce,optional" json:"failCreateOnce,omitempty"`
	Secret         *string  `pulumi:"secret,optional" provider:"secret" json:"secret,omitempty"`
	LargeBytes     *int     `pulumi:"largeBytes,optional" json:"largeBytes,omitempty"`
	Noise          *int     `pulumi:"noise,optional" json:"noise,omitempty"`
	ReplaceOn      *string  `pulumi:"replaceOn,optional" provider:"replaceOnChanges" json:"replaceOn,omitempty"`
}

// ThingState is the inputs and the outputs. The outputs are never left out:
// only a property that is there can be shown as unknown in a preview.
type ThingState struct {
	ThingArgs
	ThingID      string `pulumi:"thingId"`
	SecretOutput string `pulumi:"secretOutput" provider:"secret"`
	Large        string `pulumi:"large"`
	Generation   int    `pulumi:"generation"`
}

// WireDependencies keeps the output secret even when Pulumi has lost sight of
// the secret it was made of.
func (Thing) WireDependencies(f infer.FieldSelector, _ *ThingArgs, state *ThingState) {
	f.OutputField(&state.SecretOutput).AlwaysSecret()
}

func (Thing) Create(ctx context.Context, req infer.CreateRequest[ThingArgs]) (
	infer.CreateResponse[ThingState], error,
) {
	if req.DryRun {
		return infer.CreateResponse[ThingState]{Output: stateOf("", 0, req.Inputs)}, nil
	}
	o, id := operationIn(ctx), newID(req.Name)
	err := o.create(ctx, id, req.Inputs)
	return infer.CreateResponse[ThingState]{ID: id, Output: stateOf(id, 1, req.Inputs)}, err
}

func (o operation) create(ctx context.Context, id string, args ThingArgs) error {
	c := openCloud()
	if err := c.note("create-started", id, o.owner, ""); err != nil {
		return err
	}
	return o.finish("create", id, func() error {
		makeNoise(ctx, args.Noise)
		kept := sealed(propertiesOf(args), o.secret)
		if err := endure(ctx, args.CreateSeconds, kept["failCreate"]); err != nil {
			return err
		}
		if err := failOnce(c, o.owner, args.FailCreateOnce); err != nil {
			return err
		}
		return c.put(record{ID: id, ownerOf: o.owner, Generation: 1, Properties: kept})
	})
}

func (Thing) Update(ctx context.Context, req infer.UpdateRequest[ThingArgs, ThingState]) (
	infer.UpdateResponse[ThingState], error,
) {
	generation := req.State.Generation
	var err error
	if !req.DryRun {
		generation, err = operationIn(ctx).update(ctx, req.ID, req.Inputs)
	}
	return infer.UpdateResponse[ThingState]{Output: stateOf(req.ID, generation, req.Inputs)}, err
}

// update returns the new generation. It counts from what the cloud says, since
// that is where a thing really lives.
func (o operation) update(ctx context.Context, id string, args ThingArgs) (generation int, err error) {
	c := openCloud()
	err = o.finish("update", id, func() error {
		makeNoise(ctx, args.Noise)
		kept := sealed(propertiesOf(args), o.secret)
		if err := endure(ctx, args.UpdateSeconds, kept["failUpdate"]); err != nil {
			return err
		}
		thing, err := c.get(id)
		if err != nil {
			return err
		}
		generation = thing.Generation + 1
		return c.put(record{ID: id, ownerOf: o.owner, Generation: generation, Properties: kept})
	})
	return generation, err
}

func (Thing) Delete(ctx context.Context, req infer.DeleteRequest[ThingState]) (infer.DeleteResponse, error) {
	return infer.DeleteResponse{}, operationIn(ctx).delete(ctx, req.ID)
}

// delete goes by the failDelete and the deleteSeconds in the cloud, not by
// those in Pulumi's state: a test can so let a failing delete through without
// running an update in between.
func (o operation) delete(ctx context.Context, id string) error {
	c := openCloud()
	thing, err := c.get(id)
	if errors.Is(err, errGone) {
		// Whoever wants a thing gone is content when it is.
		return c.note("delete", id, o.owner, "already gone")
	}
	return o.finish("delete", id, func() error {
		if err != nil {
			return err
		}
		args, err := argsOf(thing.Properties)
		if err != nil {
			return err
		}
		if err := endure(ctx, args.DeleteSeconds, thing.Properties["failDelete"]); err != nil {
			return err
		}
		return c.remove(id)
	})
}

// Read says what the cloud says. An empty id tells Pulumi that the thing is gone.
func (Thing) Read(ctx context.Context, req infer.ReadRequest[ThingArgs, ThingState]) (
	infer.ReadResponse[ThingArgs, ThingState], error,
) {
	var none infer.ReadResponse[ThingArgs, ThingState]
	o, c := operationIn(ctx), openCloud()
	thing, err := c.get(req.ID)
	if errors.Is(err, errGone) {
		return none, c.note("read", req.ID, o.owner, "gone")
	}
	if err != nil {
		return none, errors.Join(err, c.note("read", req.ID, o.owner, err.Error()))
	}
	args, err := argsOf(unsealed(thing.Properties, propertiesOf(req.State.ThingArgs)))
	if err != nil {
		return none, err
	}
	return infer.ReadResponse[ThingArgs, ThingState]{
		ID: req.ID, Inputs: args, State: stateOf(req.ID, thing.Generation, args),
	}, c.note("read", req.ID, o.owner, "")
}

// finish does the work and writes down how it ended.
func (o operation) finish(op, id string, work func() error) error {
	err := work()
	if err == nil {
		return openCloud().note(op, id, o.owner, "")
	}
	return errors.Join(err, openCloud().note(op+"-failed", id, o.owner, err.Error()))
}

// endure waits and then fails, in this order, so that a test can have an
// operation that fails late.
func endure(ctx context.Context, seconds *float64, failure any) error {
	if err := wait(ctx, seconds); err != nil {
		return err
	}
	if message, _ := failure.(string); message != "" {
		return errors.New(message)
	}
	return nil
}

func wait(ctx context.Context, seconds *float64) error {
	if seconds == nil {
		return nil
	}
	timer := time.NewTimer(time.Duration(*seconds * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return errors.New("timed out")
		}
		return errors.New("cancelled")
	}
}

func failOnce(c cloud, who ownerOf, wanted *bool) error {
	if wanted == nil || !*wanted {
		return nil
	}
	first, err := c.firstTime(who)
	if err == nil && first {
		return errors.New("failCreateOnce: the first create fails")
	}
	return err
}

func makeNoise(ctx context.Context, lines *int) {
	if lines == nil {
		return
	}
	log := p.GetLogger(ctx)
	for i := range *lines {
		log.Infof("noise %d of %d", i+1, *lines)
	}
}

func stateOf(id string, generation int, args ThingArgs) ThingState {
	state := ThingState{ThingArgs: args, ThingID: id, Generation: generation}
	if args.Secret != nil {
		state.SecretOutput = "derived-from-" + *args.Secret
	}
	if args.LargeBytes != nil {
		state.Large = largeText(*args.LargeBytes)
	}
	return state
}

// largeText is the same for the same size, so that it is no drift.
func largeText(size int) string {
	const piece = "pkotest large text; "
	if size <= 0 {
		return ""
	}
	return strings.Repeat(piece, size/len(piece)+1)[:size]
}

// propertiesOf and argsOf go through JSON, so that the names in the cloud are
// written down in one place only.
func propertiesOf(args ThingArgs) map[string]any {
	text, err := json.Marshal(args)
	if err != nil {
		panic(fmt.Sprintf("plain data must encode: %v", err))
	}
	var properties map[string]any
	if err := json.Unmarshal(text, &properties); err != nil {
		panic(fmt.Sprintf("just encoded data must decode: %v", err))
	}
	return properties
}

func argsOf(properties map[string]any) (args ThingArgs, err error) {
	text, err := json.Marshal(properties)
	if err != nil {
		return args, err
	}
	return args, json.Unmarshal(text, &args)
}
