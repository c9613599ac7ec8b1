// franz-go for the jobs of clients.py: a job a line on stdin, JSON lines out.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type job struct {
	Do         string
	At         string
	Isolation  string
	Start      string
	Group      string
	Partitions map[string]json.RawMessage
}

type row map[string]any

var out = bufio.NewWriter(os.Stdout)

func say(fields row) {
	line, _ := json.Marshal(fields)
	out.Write(append(line, '\n'))
}

func split(name string) (string, int32) {
	dash := strings.LastIndexByte(name, '-')
	number, _ := strconv.Atoi(name[dash+1:])
	return name[:dash], int32(number)
}

func (j job) isCommitted() bool { return j.Isolation == "read_committed" }

func (j job) client(more ...kgo.Opt) (*kgo.Client, error) {
	level := kgo.ReadUncommitted()
	if j.isCommitted() {
		level = kgo.ReadCommitted()
	}
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(j.At),
		kgo.FetchIsolationLevel(level),
		kgo.FetchMaxWait(10 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// The end of a partition may be a marker.
		kgo.KeepControlRecords(),
	}, more...)...)
}

func (j job) numbers() (map[string]map[int32]int64, error) {
	found := map[string]map[int32]int64{}
	for name, text := range j.Partitions {
		var number *int64
		if err := json.Unmarshal(text, &number); err != nil {
			return nil, err
		}
		topic, partition := split(name)
		if found[topic] == nil {
			found[topic] = map[int32]int64{}
		}
		if number != nil {
			found[topic][partition] = *number
		} else {
			found[topic][partition] = -2
		}
	}
	return found, nil
}

// Returns the offsets at timestamps, as ListOffsets has them.
func (j job) list(ctx context.Context, client *kgo.Client, asked map[string]map[int32]int64) (map[string]map[int32]int64, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	if j.isCommitted() {
		request.IsolationLevel = 1
	}
	for topic, partitions := range asked {
		one := kmsg.NewListOffsetsRequestTopic()
		one.Topic = topic
		for partition, timestamp := range partitions {
			place := kmsg.NewListOffsetsRequestTopicPartition()
			place.Partition, place.Timestamp = partition, timestamp
			one.Partitions = append(one.Partitions, place)
		}
		request.Topics = append(request.Topics, one)
	}
	found := map[string]map[int32]int64{}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	for _, topic := range response.Topics {
		found[topic.Topic] = map[int32]int64{}
		for _, one := range topic.Partitions {
			if one.ErrorCode != 0 {
				return nil, fmt.Errorf("%s-%d: error %d", topic.Topic, one.Partition, one.ErrorCode)
			}
			found[topic.Topic][one.Partition] = one.Offset
		}
	}
	return found, nil
}

func (j job) read(ctx context.Context) error {
	given, err := j.numbers()
	if err != nil {
		return err
	}
	admin, err := j.client()
	if err != nil {
		return err
	}
	defer admin.Close()
	starts := given
	ends := map[string]map[int32]int64{}
	for topic, partitions := range given {
		ends[topic] = map[int32]int64{}
		for partition := range partitions {
			ends[topic][partition] = -1
		}
	}
	if ends, err = j.list(ctx, admin, ends); err != nil {
		return err
	}
	if j.Start == "group" {
		offsets := kadm.Offsets{}
		for topic, partitions := range given {
			for partition, offset := range partitions {
				offsets.AddOffset(topic, partition, offset, -1)
			}
		}
		if err = kadm.NewClient(admin).CommitAllOffsets(ctx, j.Group, offsets); err != nil {
			return err
		}
		found, err := kadm.NewClient(admin).FetchOffsets(ctx, j.Group)
		if err != nil {
			return err
		}
		starts = map[string]map[int32]int64{}
		found.Each(func(one kadm.OffsetResponse) {
			if starts[one.Topic] == nil {
				starts[one.Topic] = map[int32]int64{}
			}
			starts[one.Topic][one.Partition] = one.At
		})
	} else if starts, err = j.list(ctx, admin, given); err != nil {
		return err
	}
	places, left := map[string]map[int32]kgo.Offset{}, map[string]bool{}
	for topic, partitions := range starts {
		places[topic] = map[int32]kgo.Offset{}
		for partition, offset := range partitions {
			places[topic][partition] = kgo.NewOffset().At(offset)
			if offset < ends[topic][partition] {
				left[fmt.Sprintf("%s-%d", topic, partition)] = true
			}
		}
	}
	client, err := j.client(kgo.ConsumePartitions(places))
	if err != nil {
		return err
	}
	defer client.Close()
	for len(left) > 0 {
		// Behind the last record that arrives there may be some that were aborted.
		soon, cancel := context.WithTimeout(ctx, 2*time.Second)
		fetches := client.PollFetches(soon)
		cancel()
		if soon.Err() != nil && fetches.NumRecords() == 0 {
			break
		}
		for _, one := range fetches.Errors() {
			return fmt.Errorf("%s-%d: %w", one.Topic, one.Partition, one.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Offset+1 >= ends[record.Topic][record.Partition] {
				delete(left, fmt.Sprintf("%s-%d", record.Topic, record.Partition))
			}
			if record.Attrs.IsControl() {
				return
			}
			headers := [][]any{}
			for _, header := range record.Headers {
				headers = append(headers, []any{header.Key, header.Value})
			}
			timestamp := int64(-1)
			if record.Attrs.TimestampType() >= 0 {
				timestamp = record.Timestamp.UnixMilli()
			}
			var epoch any
			if record.LeaderEpoch >= 0 {
				epoch = record.LeaderEpoch
			}
			say(row{
				"topic": record.Topic, "partition": record.Partition, "offset": record.Offset,
				"timestamp": timestamp, "timestampType": record.Attrs.TimestampType(), "leaderEpoch": epoch,
				"key": record.Key, "value": record.Value, "headers": headers,
			})
		})
	}
	return nil
}

func (j job) offsets(ctx context.Context) error {
	client, err := j.client()
	if err != nil {
		return err
	}
	defer client.Close()
	queries, longest := map[string][]int64{}, 0
	for name, text := range j.Partitions {
		var timestamps []int64
		if err := json.Unmarshal(text, &timestamps); err != nil {
			return err
		}
		queries[name] = timestamps
		longest = max(longest, len(timestamps))
	}
	for number := range longest {
		asked := map[string]map[int32]int64{}
		for name, timestamps := range queries {
			if number < len(timestamps) {
				topic, partition := split(name)
				if asked[topic] == nil {
					asked[topic] = map[int32]int64{}
				}
				asked[topic][partition] = timestamps[number]
			}
		}
		found, err := j.list(ctx, client, asked)
		if err != nil {
			return err
		}
		for topic, partitions := range found {
			for partition, offset := range partitions {
				say(row{"topic": topic, "partition": partition, "query": asked[topic][partition], "offset": offset})
			}
		}
	}
	return nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var j job
		err := json.Unmarshal(lines.Bytes(), &j)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		if err == nil && j.Do == "read" {
			err = j.read(ctx)
		} else if err == nil {
			err = j.offsets(ctx)
		}
		cancel()
		if err != nil {
			say(row{"error": err.Error()})
		} else {
			say(row{"done": true})
		}
		out.Flush()
	}
}
