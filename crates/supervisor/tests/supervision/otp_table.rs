//! Erlang/OTP's supervisor, rule by rule, against the pure machine. Each case is a test of its own:
//! `name: flags, children, script => trace | state`; see `script` and `world` for the words.

use crate::script::check;

macro_rules! cases {
    ($($(#[$about:meta])* $name:ident: $flags:literal, $children:literal, $script:literal
        => $expected:literal;)*) => {
        $($(#[$about])* #[test] fn $name() { check($flags, $children, $script, $expected); })*
    };
}

mod start {
    use super::check;
    cases! {
        children_start_from_left_to_right:
            "one_for_one", "a b c", "boot" => "+a +b +c | a b c";
        a_supervisor_without_children_starts:
            "one_for_one", "", "boot" => "|";
        a_first_child_that_does_not_start_ends_the_supervisor:
            "one_for_one", "a b c", "refuse c; boot" => "+a +b !c -b -a | end: c did not start";
        a_first_child_that_does_not_start_is_not_tried_again:
            "one_for_one 9/5s", "a", "refuse a; boot" => "!a | end: a did not start";
        later_children_are_not_started_when_one_fails:
            "rest_for_one", "a b c", "refuse a; boot" => "!a | end: a did not start";
        a_child_starts_only_when_the_one_before_has_started:
            "one_for_one", "a b c", "hang b; boot" => "+a ?b | a b* c~";
        a_start_goes_on_when_a_slow_child_has_started:
            "one_for_one", "a b c", "hang b; boot; release b" => "+a ?b +c | a b c";
        a_child_that_ignores_its_start_is_kept_without_a_process:
            "one_for_one", "a b c", "ignore b; boot" => "+a !b +c | a b. c";
        a_temporary_child_that_ignores_its_start_is_forgotten:
            "one_for_one", "a b:temporary c", "ignore b; boot" => "+a !b +c | a c";
        a_stop_while_children_start_ends_those_that_did:
            "one_for_one", "a b c", "hang c; boot; stop" => "+a +b ?c /c -b -a | end: stopped";
        a_group_strategy_starts_in_order_too:
            "one_for_all", "a b c", "boot" => "+a +b +c | a b c";
    }
}

mod strategy {
    use super::check;
    cases! {
        one_for_one_restarts_only_the_child_that_failed:
            "one_for_one", "a b c", "crash b" => "+b | a b c";
        one_for_all_stops_the_others_in_reverse_and_starts_all_in_order:
            "one_for_all", "a b c", "crash b" => "-c -a +a +b +c | a b c";
        rest_for_one_restarts_the_child_and_those_after_it:
            "rest_for_one", "a b c d", "crash b" => "-d -c +b +c +d | a b c d";
        rest_for_one_of_the_last_child_restarts_only_it:
            "rest_for_one", "a b c", "crash c" => "+c | a b c";
        rest_for_one_of_the_first_child_restarts_all:
            "rest_for_one", "a b c", "crash a" => "-c -b +a +b +c | a b c";
        one_for_one_children_that_fail_together_are_each_restarted:
            "one_for_one", "a b c", "crash a & crash c" => "+a +c | a b c";
        one_for_all_children_that_fail_together_are_restarted_once:
            "one_for_all 1/5s", "a b c", "crash a & crash b" => "-c +a +b +c | a b c";
        one_for_all_where_every_child_fails_together_charges_one_restart:
            "one_for_all 1/5s", "a b c", "crash a & crash b & crash c" => "+a +b +c | a b c";
        rest_for_one_children_that_fail_together_are_restarted_once:
            "rest_for_one 1/5s", "a b c", "crash b & crash c" => "+b +c | a b c";
        rest_for_one_widens_when_an_earlier_child_fails_meanwhile:
            "rest_for_one 2/5s", "a b c d", "crash c & crash b" => "-d +b +c +d | a b c d";
        a_group_restart_starts_children_that_were_terminated_before:
            "one_for_all", "a b c", "terminate b; crash a" => "-b =done -c +a +b +c | a b c";
        a_group_restart_starts_transient_children_that_had_ended:
            "one_for_all", "a b:transient c", "normal b; crash a" => "-c +a +b +c | a b c";
        rest_for_one_starts_stopped_children_only_after_the_failed_one:
            "rest_for_one", "a b c", "terminate a & terminate c; crash b"
            => "-a -c =done =done +b +c | a. b c";
        a_group_restart_does_not_bring_temporary_children_back:
            "one_for_all", "a b:temporary c", "crash a" => "-c -b +a +c | a c";
        rest_for_one_does_not_bring_temporary_children_back:
            "rest_for_one", "a b:temporary c", "crash a" => "-c -b +a +c | a c";
        a_member_that_fails_to_start_again_restarts_one_for_all_from_the_first:
            "one_for_all", "a b c", "advance 0s; refuse c; crash b" => "-c -a +a +b !c -b -a +a +b +c | a b c";
        a_member_that_fails_to_start_again_restarts_rest_for_one_from_itself:
            "rest_for_one", "a b c d", "advance 0s; refuse c; crash b" => "-d -c +b !c +c +d | a b c d";
        a_member_that_dies_while_its_group_starts_restarts_one_for_all_anew:
            "one_for_all", "a b c", "advance 0s; hang c; crash a; go c; crash b"
            => "-c -b +a +b ?c /c -a +a +b +c | a b c";
        a_member_that_dies_while_its_group_starts_leaves_those_before_it:
            "rest_for_one", "a b c d", "advance 0s; hang d; crash b; go d; crash c"
            => "-d -c +b +c ?d /d +c +d | a b c d";
        a_start_that_fails_before_its_group_stops_it_takes_part_in_the_restart:
            "one_for_all 1/5s", "a b c:9s",
            "stubborn c; boot; terminate b; hang b; restart b; crash a; deny b; kill c"
            => "+a +b +c -b =done ?b -c =start failed +a +b +c | a b c";
        a_child_that_ignores_before_its_group_stops_it_takes_part_in_the_restart:
            "one_for_all 1/5s", "a b c:9s",
            "stubborn c; boot; terminate b; hang b; restart b; crash a; skip b; kill c"
            => "+a +b +c -b =done ?b -c =ignored +a +b +c | a b c";
        a_child_that_is_being_terminated_when_its_group_fails_comes_back_with_it:
            "one_for_all", "a b:2s", "stubborn b; boot; terminate b; crash a; advance 2s"
            => "+a +b -b #b =done +a +b | a b";
        simple_one_for_one_restarts_only_the_child_that_failed:
            "simple_one_for_one", "a b", "crash a" => "+a | a b";
    }
}

mod restart_type {
    use super::check;
    cases! {
        permanent_restarts_after_a_crash: "one_for_one", "a", "crash a" => "+a | a";
        permanent_restarts_after_a_normal_end: "one_for_one", "a", "normal a" => "+a | a";
        permanent_restarts_after_shutdown: "one_for_one", "a", "shutdown a" => "+a | a";
        permanent_restarts_after_a_kill: "one_for_one", "a", "kill a" => "+a | a";
        transient_restarts_after_a_crash: "one_for_one", "a:transient", "crash a" => "+a | a";
        transient_restarts_after_a_kill: "one_for_one", "a:transient", "kill a" => "+a | a";
        transient_restarts_after_an_abort: "one_for_one", "a:transient", "abort a" => "+a | a";
        transient_restarts_when_nobody_saw_the_end:
            "one_for_one", "a:transient", "lose a" => "+a | a";
        transient_rests_after_a_normal_end: "one_for_one", "a:transient", "normal a" => "| a.";
        transient_rests_after_shutdown: "one_for_one", "a:transient", "shutdown a" => "| a.";
        transient_rests_after_shutdown_with_a_reason:
            "one_for_one", "a:transient", "shutdown_because a" => "| a.";
        temporary_is_forgotten_after_a_crash: "one_for_one", "a:temporary b", "crash a" => "| b";
        temporary_is_forgotten_after_a_normal_end:
            "one_for_one", "a:temporary b", "normal a" => "| b";
        temporary_is_forgotten_after_a_kill: "one_for_one", "a:temporary b", "kill a" => "| b";
        a_temporary_crash_takes_no_group_with_it:
            "one_for_all", "a b:temporary c", "crash b" => "| a c";
        a_normal_end_of_a_transient_takes_no_group_with_it:
            "one_for_all", "a b:transient c", "normal b" => "| a b. c";
        a_normal_end_of_a_permanent_takes_its_group_with_it:
            "one_for_all", "a b", "normal a" => "-b +a +b | a b";
        simple_one_for_one_forgets_a_transient_that_ended:
            "simple_one_for_one", "a:transient b", "normal a" => "| b";
    }
}

mod intensity {
    use super::check;
    cases! {
        as_many_restarts_as_the_intensity_are_borne:
            "one_for_one 2/5s", "a", "crash a; crash a" => "+a +a | a";
        one_restart_more_ends_the_supervisor:
            "one_for_one 2/5s", "a b", "crash a; crash a; crash a"
            => "+a +a ^ -b | end: used up by a";
        intensity_zero_bears_no_restart:
            "one_for_one 0/5s", "a b", "crash b" => "^ -a | end: used up by b";
        intensity_zero_bears_ends_that_need_no_restart:
            "one_for_one 0/5s", "a:transient b:temporary c", "normal a; crash b" => "| a. c";
        all_children_are_stopped_in_reverse_when_restarts_are_used_up:
            "one_for_one 0/5s", "a b c d", "crash b" => "^ -d -c -a | end: used up by b";
        restarts_of_all_children_count_together:
            "one_for_one 1/5s", "a b", "crash a; crash b" => "+a ^ -a | end: used up by b";
        a_group_restart_counts_once:
            "one_for_all 1/5s", "a b c d", "crash a" => "-d -c -b +a +b +c +d | a b c d";
        restarts_before_the_period_do_not_count:
            "one_for_one 1/5s", "a", "crash a; advance 5001ms; crash a" => "+a +a | a";
        a_restart_exactly_one_period_ago_counts:
            "one_for_one 1/5s", "a", "crash a; advance 5s; crash a" => "+a ^ | end: used up by a";
        the_period_slides:
            "one_for_one 2/5s", "a", "crash a; advance 3s; crash a; advance 3s; crash a; advance 1s; crash a"
            => "+a +a +a ^ | end: used up by a";
        every_attempt_to_start_again_counts:
            "one_for_one 3/5s", "a", "advance 0s; refuse a 2; crash a" => "!a !a +a | a";
        attempts_that_fail_use_restarts_up:
            "one_for_one 2/5s", "a b", "boot; refuse a 9; crash a"
            => "+a +b !a !a ^ -b | end: used up by a";
        a_group_attempt_that_fails_counts:
            "one_for_all 1/5s", "a b c", "boot; refuse b 9; crash a"
            => "+a +b +c -c -b +a !b ^ -a | end: used up by b";
        starts_by_command_do_not_count:
            "one_for_one 0/5s", "a", "terminate a; restart a; terminate a; restart a"
            => "-a =done +a =started -a =done +a =started | a";
        a_child_that_was_killed_for_stubbornness_does_not_count:
            "one_for_one 0/5s", "a b:1s", "stubborn b; boot; terminate b; advance 1s"
            => "+a +b -b #b =done | a b.";
        an_excused_exit_does_not_count:
            "one_for_one 0/5s", "a", "outage a; advance 100ms; outage a; advance 100ms" => "+a +a | a";
        an_excused_exit_is_never_restarted_immediately:
            "one_for_one 0/5s", "a", "outage a; advance 99ms" => "| a~";
        an_excused_exit_does_not_forgive_the_counted_ones:
            "one_for_one 1/5s", "a", "crash a; outage a; advance 100ms; crash a"
            => "+a +a ^ | end: used up by a";
    }
}

mod shutdown {
    use super::check;
    cases! {
        children_stop_in_reverse_order:
            "one_for_one", "a b c", "stop" => "-c -b -a | end: stopped";
        each_child_is_waited_for_before_the_next_is_stopped:
            "one_for_one", "a b c:infinity", "stubborn c; boot; stop; advance 3600s"
            => "+a +b +c -c | a b c-";
        a_child_that_does_not_stop_in_time_is_killed:
            "one_for_one", "a b:2s", "stubborn b; boot; stop; advance 2s"
            => "+a +b -b #b -a | end: stopped";
        a_child_is_not_killed_before_its_time:
            "one_for_one", "a b:2s", "stubborn b; boot; stop; advance 1999ms" => "+a +b -b | a b-";
        a_worker_has_five_seconds_by_default:
            "one_for_one", "a", "stubborn a; boot; stop; advance 4999ms; advance 1ms"
            => "+a -a #a | end: stopped";
        a_supervisor_has_all_the_time_by_default:
            "one_for_one", "a:supervisor", "stubborn a; boot; stop; advance 3600s" => "+a -a | a-";
        brutal_kill_asks_nobody:
            "one_for_one", "a b:brutal", "stop" => "#b -a | end: stopped";
        a_time_of_zero_asks_and_kills:
            "one_for_one", "a:0s", "stubborn a; boot; stop; advance 0s" => "+a -a #a | end: stopped";
        simple_one_for_one_stops_all_at_once:
            "simple_one_for_one", "a b c:1s d", "stubborn c; boot; stop; advance 1s"
            => "+a +b +c +d -d -c -b -a #c | end: stopped";
        a_group_restart_kills_members_that_do_not_stop:
            "one_for_all", "a b:1s c", "stubborn b; boot; crash a; advance 1s"
            => "+a +b +c -c -b #b +a +b +c | a b c";
        a_restart_waits_for_the_member_that_does_not_stop:
            "one_for_all", "a b:1s c", "stubborn b; boot; crash a; advance 999ms"
            => "+a +b +c -c -b | a~ b- c~";
        a_second_stop_changes_nothing:
            "one_for_one", "a b:1s", "stubborn b; boot; stop; stop; advance 1s"
            => "+a +b -b #b -a | end: stopped";
        a_child_that_dies_while_others_stop_is_not_restarted:
            "one_for_one", "a b:9s", "stubborn b; boot; stop; crash a; kill b"
            => "+a +b -b | end: stopped";
        a_start_that_fails_while_the_supervisor_ends_is_not_counted:
            "one_for_one 1/5s", "a b",
            "advance 0s; refuse a 9; crash a & crash b" => "!a ^ | end: used up by b";
        a_stop_during_a_group_restart_ends_it:
            "one_for_all", "a b:9s c", "stubborn b; boot; crash a; stop; kill b"
            => "+a +b +c -c -b | end: stopped";
    }
}

mod commands {
    use super::check;
    cases! {
        start_child_adds_at_the_end:
            "one_for_one", "a b", "start c; stop" => "+c =started -c -b -a | end: stopped";
        start_child_of_a_running_id_is_already_started:
            "one_for_one", "a", "start a" => "=alreadystarted | a";
        start_child_of_a_stopped_id_is_already_present:
            "one_for_one", "a", "terminate a; start a" => "-a =done =alreadypresent | a.";
        start_child_of_an_id_in_back_off_is_already_present:
            "one_for_one backoff 1s", "a", "crash a; start a" => "=alreadypresent | a~";
        a_new_child_that_does_not_start_is_not_added:
            "one_for_one", "a", "boot; refuse b; start b" => "+a !b =start failed | a";
        a_new_child_that_does_not_start_is_not_tried_again_and_not_counted:
            "one_for_one 0/5s", "a", "boot; refuse b; start b; start b"
            => "+a !b =start failed +b =started | a b";
        a_new_child_that_ignores_its_start_is_kept:
            "one_for_one", "a", "boot; ignore b; start b" => "+a !b =ignored | a b.";
        a_new_temporary_child_that_ignores_its_start_is_not:
            "one_for_one", "a", "boot; ignore b; start b:temporary" => "+a !b =ignored | a";
        terminate_child_stops_and_keeps:
            "one_for_one", "a b", "terminate a" => "-a =done | a. b";
        terminate_child_forgets_a_temporary_child:
            "one_for_one", "a:temporary b", "terminate a" => "-a =done | b";
        terminate_child_of_a_stopped_child_is_done:
            "one_for_one", "a", "terminate a; terminate a" => "-a =done =done | a.";
        terminate_child_of_an_unknown_child_is_not_found:
            "one_for_one", "a", "terminate x" => "=notfound | a";
        terminate_child_takes_no_group_with_it:
            "one_for_all", "a b c", "terminate b" => "-b =done | a b. c";
        terminate_child_answers_when_the_child_has_ended:
            "one_for_one", "a:2s", "stubborn a; boot; terminate a; advance 1s" => "+a -a | a-";
        terminating_twice_answers_both_at_the_end:
            "one_for_one", "a:2s", "stubborn a; boot; terminate a; terminate a; advance 2s"
            => "+a -a #a =done =done | a.";
        terminate_child_ends_a_back_off:
            "one_for_one backoff 1s", "a", "crash a; terminate a; advance 9s" => "=done | a.";
        terminate_child_drops_a_start:
            "one_for_one", "a", "advance 0s; hang b; start b; terminate b"
            => "?b /b =done =terminated | a b.";
        a_start_that_succeeded_before_it_was_dropped_is_stopped_properly:
            "one_for_one", "a", "start b & terminate b" => "+b /b -b =done =terminated | a b.";
        restart_child_starts_a_stopped_child_in_its_place:
            "one_for_one", "a b", "terminate a; restart a; stop"
            => "-a =done +a =started -b -a | end: stopped";
        restart_child_of_a_running_child_is_refused:
            "one_for_one", "a", "restart a" => "=running | a";
        restart_child_of_an_unknown_child_is_not_found:
            "one_for_one", "a", "restart x" => "=notfound | a";
        restart_child_in_back_off_is_refused:
            "one_for_one backoff 1s", "a", "crash a; restart a" => "=restarting | a~";
        restart_child_that_fails_leaves_it_stopped:
            "one_for_one 0/5s", "a", "boot; terminate a; refuse a; restart a"
            => "+a -a =done !a =start failed | a.";
        restart_child_waits_for_the_end_of_a_termination:
            "one_for_one", "a:2s", "stubborn a; boot; terminate a; restart a; advance 2s"
            => "+a -a #a =done +a =started | a";
        terminate_beats_a_restart_that_waits:
            "one_for_one", "a:2s", "stubborn a; boot; terminate a; restart a; terminate a; advance 2s"
            => "+a -a =terminated #a =done =done | a.";
        start_child_waits_for_the_end_of_a_temporary_child_of_that_id:
            "one_for_one", "a:temporary:2s", "stubborn a; boot; terminate a; start a; advance 2s"
            => "+a -a #a =done +a =started | a";
        delete_child_forgets_a_stopped_child:
            "one_for_one", "a b", "terminate a; delete a; restart a" => "-a =done =done =notfound | b";
        delete_child_of_a_running_child_is_refused: "one_for_one", "a", "delete a" => "=running | a";
        delete_child_in_back_off_is_refused:
            "one_for_one backoff 1s", "a", "crash a; delete a" => "=restarting | a~";
        delete_child_of_an_unknown_child_is_not_found:
            "one_for_one", "a", "delete x" => "=notfound | a";
        delete_child_waits_for_the_end_of_a_termination:
            "one_for_one", "a:2s", "stubborn a; boot; terminate a; delete a; advance 2s"
            => "+a -a #a =done =done |";
        an_id_can_be_used_again_after_delete:
            "one_for_one", "a b", "terminate a; delete a; start a" => "-a =done =done +a =started | b a";
        simple_one_for_one_refuses_restart_and_delete:
            "simple_one_for_one", "a", "restart a; delete a" => "=simpleoneforone =simpleoneforone | a";
        simple_one_for_one_forgets_a_terminated_child:
            "simple_one_for_one", "a b", "terminate a; terminate a" => "-a =done =notfound | b";
        commands_while_the_supervisor_ends_are_refused:
            "one_for_one", "a:2s", "stubborn a; boot; stop; start b; restart a; delete a; terminate a"
            => "+a -a =ended =ended =ended =ended | a-";
        callers_that_wait_when_the_supervisor_ends_are_answered:
            "one_for_one", "a", "advance 0s; hang b; start b; stop" => "?b =ended /b -a | end: stopped";
        a_child_added_while_its_group_restarts_starts_last:
            "one_for_all", "a b:1s", "stubborn b; boot; crash a; start c; advance 1s"
            => "+a +b -b #b +a +b +c =started | a b c";
        a_child_added_to_a_group_that_does_not_start_is_not_added:
            "one_for_all 1/5s", "a b:1s", "stubborn b; boot; crash a; refuse c; start c; advance 1s"
            => "+a +b -b #b +a +b !c =start failed | a b";
        a_new_child_that_fails_before_its_group_stops_it_is_not_added:
            "one_for_all 1/5s", "a",
            "stubborn c; boot; hang b; start b; start c:9s; crash a; deny b; kill c"
            => "+a ?b +c =started -c =start failed +a +c | a c";
        a_start_that_its_group_interrupts_is_made_again_and_answered_once:
            "one_for_all", "a", "advance 0s; hang b; start b; go b; crash a" => "?b /b +a +b =started | a b";
        a_temporary_start_that_its_group_interrupts_is_made_again_too:
            "one_for_all", "a", "advance 0s; hang b; start b:temporary; go b; crash a"
            => "?b /b +a +b =started | a b";
        a_child_whose_turn_in_its_group_is_over_is_restarted_at_once:
            "one_for_all", "a b c", "advance 0s; hang c; crash a; terminate b; restart b; release c"
            => "-c -b +a +b ?c -b =done +b =started | a b c";
        a_child_whose_turn_in_its_group_is_to_come_waits_for_it:
            "one_for_all", "a b c",
            "advance 0s; hang b; crash a; terminate c; restart c; release b"
            => "-c -b +a ?b =done +c =started | a b c";
        terminating_a_member_while_its_group_restarts_leaves_it_out:
            "one_for_all", "a b:1s c", "stubborn b; boot; crash a; terminate c; advance 1s"
            => "+a +b +c -c -b =done #b +a +b | a b c.";
        terminating_the_member_that_hangs_lets_its_group_go_on:
            "one_for_all", "a b c", "advance 0s; hang b; crash a; terminate b"
            => "-c -b +a ?b /b =done +c | a b. c";
    }
}

mod significant {
    use super::check;
    cases! {
        never_looks_at_no_child:
            "one_for_one", "a:transient b", "normal a" => "| a. b";
        any_ends_when_a_transient_ends_normally:
            "one_for_one any", "a:transient:significant b", "normal a" => "-b | end: auto by a";
        any_does_not_end_when_a_transient_crashes:
            "one_for_one any", "a:transient:significant b", "crash a" => "+a | a b";
        any_ends_when_a_temporary_ends_normally:
            "one_for_one any", "a:temporary:significant b", "normal a" => "-b | end: auto by a";
        any_ends_when_a_temporary_crashes:
            "one_for_one any", "a:temporary:significant b", "crash a" => "-b | end: auto by a";
        any_does_not_look_at_others:
            "one_for_one any", "a:transient:significant b:transient", "normal b" => "| a b.";
        any_does_not_end_when_a_child_is_terminated:
            "one_for_one any", "a:transient:significant b", "terminate a" => "-a =done | a. b";
        any_does_not_end_when_a_member_is_stopped_with_its_group:
            "one_for_all any", "a b:temporary:significant", "crash a" => "-b +a | a";
        all_waits_for_the_last:
            "one_for_one all", "a:transient:significant b:temporary:significant c", "normal a"
            => "| a. b c";
        all_ends_with_the_last:
            "one_for_one all", "a:transient:significant b:temporary:significant c",
            "normal a; crash b" => "-c | end: auto by b";
        all_ends_when_both_end_together:
            "one_for_one all", "a:transient:significant b:transient:significant c",
            "normal a & normal b" => "-c | end: auto by b";
        all_counts_one_in_back_off_as_active:
            "one_for_one all backoff 1s", "a:transient:significant b:transient:significant",
            "crash a; normal b" => "| a~ b.";
        all_does_not_count_one_that_was_terminated:
            "one_for_one all", "a:transient:significant b:transient:significant c",
            "terminate a; normal b" => "-a =done -c | end: auto by b";
        all_does_not_count_one_that_is_being_terminated:
            "one_for_one all", "a:transient:significant:2s b:transient:significant c",
            "stubborn a; boot; terminate a; normal b; advance 2s"
            => "+a +b +c -a -c #a =done | end: auto by b";
        all_does_not_end_when_the_last_is_terminated:
            "one_for_one all", "a:transient:significant b", "terminate a" => "-a =done | a. b";
        simple_one_for_one_ends_with_its_last_significant_child:
            "simple_one_for_one all", "a:temporary:significant b:temporary:significant",
            "crash a; crash b" => "| end: auto by b";
        a_significant_child_below_never_is_refused:
            "one_for_one", "a", "start b:transient:significant" => "=invalid | a";
        a_permanent_significant_child_is_refused:
            "one_for_one any", "a", "start b:significant" => "=invalid | a";
    }
}

mod back_off {
    use super::check;
    cases! {
        a_restart_waits_for_its_back_off:
            "one_for_one backoff 1s", "a b", "crash a; advance 999ms" => "| a~ b";
        and_then_happens:
            "one_for_one backoff 1s", "a b", "crash a; advance 1s" => "+a | a b";
        the_wait_doubles_with_each_failure_in_a_row:
            "one_for_one backoff 1s", "a", "crash a; advance 1s; crash a; advance 1999ms"
            => "+a | a~";
        a_start_that_fails_waits_longer:
            "one_for_one backoff 1s", "a", "boot; refuse a; crash a; advance 1s; advance 2s"
            => "+a !a +a | a";
        a_child_that_ran_long_enough_starts_again_at_the_first_wait:
            "one_for_one backoff 1s", "a", "crash a; advance 61s; crash a; advance 1s" => "+a +a | a";
        a_group_stops_at_once_and_starts_after_the_back_off:
            "one_for_all backoff 1s", "a b c", "crash b; advance 999ms" => "-c -a | a~ b~ c~";
        a_group_starts_in_order_after_the_back_off:
            "one_for_all backoff 1s", "a b c", "crash b; advance 1s" => "-c -a +a +b +c | a b c";
        one_child_backs_off_while_others_restart:
            "one_for_one backoff 1s", "a b", "crash a; advance 500ms; crash b; advance 500ms"
            => "+a | a b~";
        a_stop_ends_every_back_off:
            "one_for_one backoff 1s", "a b", "crash a; stop; advance 9s" => "-b | end: stopped";
        a_stop_ends_a_groups_back_off:
            "one_for_all backoff 1s", "a b", "crash a; stop; advance 9s" => "-b | end: stopped";
        a_group_goes_on_without_a_member_that_is_terminated_meanwhile:
            "one_for_all backoff 1s", "a b c", "crash b; terminate b; advance 1s"
            => "-c -a =done +a +c | a b. c";
        a_failure_before_the_range_widens_a_group_in_back_off:
            "rest_for_one backoff 1s", "a b c", "crash c; crash a; advance 1s"
            => "-b +a +b +c | a b c";
    }
}
