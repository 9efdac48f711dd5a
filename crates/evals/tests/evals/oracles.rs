//! Statistics agree with other programs on random cases.
//!
//! The values were computed once, with scipy 1.17.1 (`stats.sem`, `stats.t.interval`, `stats.ttest_rel`,
//! `stats.binomtest`), scikit-learn (`cohen_kappa_score`), krippendorff 0.8 (`alpha`) and choix 0.4.1 (`ilsr_pairwise`
//! without regularisation, centred). Those of resamples come from numpy's percentiles of the same draws, with BCa by
//! scipy's formulas; `scipy.stats.bootstrap` with draws of its own gives [0.3725, 0.6020] for the first row.

use ghostlight_evals::statistics::{
    Clustered, Comparison, Distance, Game, Interval, Pair, bradley_terry, cohens_kappa,
    krippendorffs_alpha, sign_test,
};

fn close(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() < 1e-9, "{what}: {a} is not {b}");
}

fn within(found: Interval, wanted: [f64; 2], what: &str) {
    close(found.lower, wanted[0], what);
    close(found.upper, wanted[1], what);
}

/// A seed, the values by cluster, and both intervals of them.
type Resampled = (u64, &'static [&'static [f64]], [f64; 2], [f64; 2]);

/// Two sides of pairs, and three figures of them.
type Paired = (&'static [f64], &'static [f64], f64, f64, f64);

/// The digits of a text as numbers.
fn digits(text: &str) -> Vec<f64> {
    text.bytes().map(|byte| f64::from(byte - b'0')).collect()
}

#[test]
fn kappas_are_those_of_scikit_learn() {
    let rows = [
        (
            "32341224324515245342434224222",
            "52141425212524335353255314112",
            0.627_198_917_456,
            0.139_465_875_371,
        ),
        (
            "24322215513355",
            "44133115525343",
            0.629_722_921_914,
            0.207_547_169_811,
        ),
        (
            "4355121351442241244435553525",
            "3133143431221152155444554535",
            0.616_788_321_168,
            0.056_179_775_281,
        ),
        (
            "3235135533242351334",
            "3253243512142251133",
            0.603_531_300_161,
            0.258_865_248_227,
        ),
        (
            "43334444525543431224533",
            "41224554515322411115431",
            0.669_856_459_33,
            0.208_715_596_33,
        ),
        (
            "343123342133",
            "535115452124",
            0.602_941_176_471,
            0.129_032_258_065,
        ),
        (
            "115343321114",
            "114121511113",
            0.609_589_041_096,
            0.134_020_618_557,
        ),
        ("233313", "453215", 0.380_952_380_952, 0.2),
    ];
    for (one, two, squared, plain) in rows {
        let pairs: Vec<(f64, f64)> = digits(one).into_iter().zip(digits(two)).collect();
        close(
            cohens_kappa(&pairs, Distance::Squared).unwrap(),
            squared,
            one,
        );
        close(cohens_kappa(&pairs, Distance::Nominal).unwrap(), plain, one);
    }
    assert_eq!(cohens_kappa(&[], Distance::Nominal), None);
    assert_eq!(cohens_kappa(&[(3.0, 3.0); 9], Distance::Squared), None);
}

#[test]
fn alphas_are_those_of_krippendorffs_package() {
    let rows: [(&[&str], f64, f64); 8] = [
        (
            &["2", "44", "11", "", "5", "", "42", "42", "54", "4", "11"],
            0.685_714_285_714,
            0.326_530_612_245,
        ),
        (
            &["21", "45", "11", "22"],
            0.887_096_774_194,
            0.363_636_363_636,
        ),
        (
            &["44", "31", "2", "4", "5", "2", "3", "31", "43", "43"],
            0.25,
            -0.125,
        ),
        (
            &["2", "22", "54", "55", "55", "3"],
            0.932_038_834_951,
            0.588_235_294_118,
        ),
        (
            &[
                "112", "213", "332", "321", "45", "422", "555", "213", "121", "223",
            ],
            0.647_058_823_529,
            0.075_471_698_113,
        ),
        (&["555", "554", "313", "122", "554"], 0.804, 0.3),
        (
            &["55", "4454", "212", "131", "244", "435", "21", "443", "43"],
            0.650_909_090_909,
            0.15,
        ),
        (
            &["5335", "213", "221", "443", "211"],
            0.617_117_117_117,
            0.125,
        ),
    ];
    for (things, interval, nominal) in rows {
        let read: Vec<Vec<f64>> = things.iter().map(|thing| digits(thing)).collect();
        let what = things.join(" ");
        close(
            krippendorffs_alpha(&read, Distance::Squared).unwrap(),
            interval,
            &what,
        );
        close(
            krippendorffs_alpha(&read, Distance::Nominal).unwrap(),
            nominal,
            &what,
        );
    }
    assert_eq!(
        krippendorffs_alpha(&[vec![1.0], vec![2.0]], Distance::Squared),
        None
    );
}

#[test]
fn strengths_are_those_of_choix() {
    let rows: [(usize, &str, &[f64]); 5] = [
        (
            5,
            "01 01 01 01 10 01 01 01 01 02 20 02 02 20 02 02 02 02 03 03 30 03 30 30 30 04 40 04 40 04 40 40 04 12 12 21 21 21 12 21 31 31 31 31 31 31 31 31 31 41 41 14 14 14 41 14 41 14 41 14 23 23 32 32 32 32 32 32 42 24 42 42 24 24 42 34 34 34 34 34 43 34",
            &[
                0.542_925_491_4,
                -0.842_145_649_2,
                -0.497_491_09,
                1.170_195_104_1,
                -0.373_483_856_3,
            ],
        ),
        (
            5,
            "10 01 01 10 10 01 10 01 01 01 02 20 20 02 20 02 30 30 30 30 30 30 30 30 30 30 30 40 40 04 04 40 40 04 21 21 21 21 21 12 12 12 12 31 13 31 31 31 31 31 31 14 14 41 14 14 41 32 32 32 23 24 24 24 24 24 24 24 34 34 34 43 34",
            &[
                -0.526_689_862_9,
                -0.425_610_159_3,
                0.207_952_699,
                1.695_555_454_7,
                -0.951_208_131_5,
            ],
        ),
        (
            5,
            "01 01 01 10 01 01 01 20 02 20 02 02 02 02 02 20 20 02 03 03 03 03 03 03 03 03 03 03 04 40 40 40 04 12 12 12 12 12 21 12 13 13 13 13 13 13 13 14 14 41 41 14 41 41 14 23 23 23 23 23 23 23 23 23 23 32 24 42 42 24 42 42 42 43 43 43 34 43 43 34",
            &[
                0.980_784_749_4,
                0.571_141_707_4,
                -0.116_664_499,
                -1.978_490_130_8,
                0.543_228_173,
            ],
        ),
        (
            4,
            "10 01 01 01 10 01 10 10 10 10 01 02 02 20 02 20 02 20 03 30 03 30 03 30 03 03 30 21 12 21 12 21 12 21 13 13 13 31 13 13 13 13 13 23 23 23 23 23 32 23 23 23 23",
            &[
                0.070_484_445_7,
                0.413_357_276_1,
                0.493_273_994_6,
                -0.977_115_716_3,
            ],
        ),
        (
            5,
            "10 10 01 01 01 10 10 01 10 02 20 02 02 02 02 02 02 02 20 02 03 30 03 03 30 03 03 30 04 40 40 40 40 40 04 04 04 04 04 21 12 21 12 31 31 13 31 41 14 41 41 23 23 32 32 32 23 23 42 42 42 42 24 42 34 34 34 34 34 43 34 34 34",
            &[
                0.359_910_308_1,
                -0.174_046_418_1,
                -0.547_761_745_6,
                0.382_201_998_5,
                -0.020_304_142_9,
            ],
        ),
    ];
    for (contenders, games, logs) in rows {
        let games: Vec<Game> = games
            .split(' ')
            .map(|game| {
                let who = digits(game);
                Game {
                    first: who[0] as usize,
                    second: who[1] as usize,
                    won: 1.0,
                }
            })
            .collect();
        let found = bradley_terry(contenders, &games).unwrap();
        for (found, wanted) in found.iter().zip(logs) {
            assert!((found - wanted).abs() < 1e-8, "{found} is not {wanted}");
        }
    }
    // Who won all has no strength, and neither have those who never met.
    let game = |first, second| Game {
        first,
        second,
        won: 1.0,
    };
    assert_eq!(bradley_terry(2, &[game(0, 1)]), None);
    assert_eq!(bradley_terry(3, &[game(0, 1), game(1, 0)]), None);
    // A tie is half a win for each.
    let tie = Game {
        first: 0,
        second: 1,
        won: 0.5,
    };
    assert_eq!(bradley_terry(2, &[tie, tie]), Some(vec![0.0, 0.0]));
}

#[test]
fn sign_tests_are_those_of_scipy() {
    let rows = [
        (0, 0, 1.0),
        (5, 0, 0.0625),
        (7, 3, 0.343_75),
        (12, 12, 1.0),
        (30, 17, 0.078_940_693_681_488_46),
        (1, 40, 3.819_877_747_446_298_6e-11),
    ];
    for (wins, losses, p) in rows {
        close(sign_test(wins, losses), p, "sign test");
        close(sign_test(losses, wins), p, "sign test");
    }
}

#[test]
fn resamples_give_the_intervals_of_numpy_and_scipy() {
    let rows: [Resampled; 3] = [
        (
            7,
            &[
                &[0.73],
                &[0.51],
                &[0.06],
                &[0.34],
                &[0.92],
                &[0.44],
                &[0.73],
                &[0.15],
                &[0.81],
                &[0.33],
                &[0.1],
                &[0.42],
                &[0.45],
                &[0.55],
                &[0.38],
                &[0.38],
                &[0.21],
                &[0.35],
                &[0.89],
                &[0.91],
            ],
            [0.36745, 0.598_025],
            [0.370_685_390_382, 0.602_324_671_191],
        ),
        (
            39,
            &[
                &[0.83, 0.08, 0.67, 0.11],
                &[0.83, 0.64, 0.2, 0.21],
                &[0.25, 0.86, 0.71, 0.58],
                &[0.3, 0.35, 0.26, 0.03],
                &[0.31, 0.33, 0.57, 0.05],
                &[0.33, 0.0, 0.91, 0.84],
                &[0.43, 0.54, 0.78, 0.22],
                &[0.22, 0.41, 0.29, 0.34],
                &[0.88, 0.23, 0.27, 0.5],
                &[0.57, 0.11, 0.23, 0.19],
                &[0.77, 0.41, 0.93, 0.3],
                &[0.28, 0.27, 0.04, 0.45],
                &[0.69, 0.17, 0.86, 0.62],
                &[0.97, 0.7, 0.53, 0.37],
                &[0.04, 0.35, 0.03, 0.17],
            ],
            [0.345_325, 0.498_004_166_667],
            [0.341_146_256_016, 0.491_958_395_47],
        ),
        (
            11,
            &[
                &[0.13, 0.61, 0.74, 0.46, 0.01],
                &[0.71, 0.44],
                &[0.98, 0.4, 0.68, 0.76, 0.28],
                &[0.7, 0.19],
                &[0.77, 0.86],
                &[0.05, 0.61, 0.7, 0.63, 0.24],
                &[0.47],
                &[0.55],
                &[0.56, 0.26, 0.57, 0.14],
                &[0.22, 0.33, 0.39, 0.47],
                &[0.57, 0.47, 0.8, 0.02, 0.73],
                &[0.42],
                &[0.01, 0.29],
                &[0.48],
                &[0.2, 0.12, 0.49, 0.63, 0.69],
                &[0.53, 0.93, 0.27],
                &[0.4],
                &[0.05, 0.94, 0.06],
                &[0.45, 0.61, 0.26],
                &[0.07],
                &[0.57, 0.71, 0.51, 0.46],
                &[0.53, 0.34, 0.84, 0.57, 0.14],
                &[0.84, 0.4, 0.68, 0.47],
                &[0.43, 0.01, 0.82, 0.21, 0.08],
                &[0.7, 0.42],
            ],
            [0.414_778_428_094, 0.512_916_826_923],
            [0.413_212_014_024, 0.511_747_576_283],
        ),
    ];
    for (seed, clusters, percentile, bca) in rows {
        let clustered = Clustered::new(clusters.iter().map(|scores| scores.to_vec()));
        let found = clustered.bootstrap(seed, 2_000).unwrap();
        within(found.percentile, percentile, "percentile");
        within(found.bca, bca, "BCa");
    }
    assert!(Clustered::new([vec![1.0]]).bootstrap(1, 100).is_none());
    let equal = Clustered::new((0..5).map(|_| vec![0.5]))
        .bootstrap(1, 100)
        .unwrap();
    within(equal.bca, [0.5, 0.5], "equal clusters");
}

#[test]
fn means_have_the_intervals_of_scipy() {
    let rows: [(&[f64], f64, f64, f64); 4] = [
        (
            &[
                0.227, 0.44, 0.98, 0.509, 0.668, 0.308, 0.939, 0.235, 0.067, 0.877, 0.217, 0.375,
                0.259, 0.698, 0.049, 0.776, 0.094, 0.353, 0.03,
            ],
            0.426_368_421_053,
            0.276_376_779_82,
            0.576_360_062_285,
        ),
        (
            &[
                0.011, 0.891, 0.23, 0.206, 0.339, 0.848, 0.343, 0.997, 0.894, 0.619, 0.708, 0.871,
                0.145,
            ],
            0.546_307_692_308,
            0.338_544_877_755,
            0.754_070_506_86,
        ),
        (
            &[
                0.298, 0.737, 0.06, 0.182, 0.467, 0.745, 0.423, 0.438, 0.558, 0.31, 0.763, 0.987,
                0.473, 0.709, 0.419, 0.401,
            ],
            0.498_125,
            0.369_861_009_296,
            0.626_388_990_704,
        ),
        (
            &[
                0.466, 0.82, 0.51, 0.232, 0.987, 0.899, 0.001, 0.722, 0.713, 0.594, 0.92, 0.93,
                0.86, 0.25, 0.296, 0.281, 0.4, 0.228, 0.947, 0.568, 0.666, 0.125, 0.82,
            ],
            0.575_434_782_609,
            0.445_200_363_574,
            0.705_669_201_643,
        ),
    ];
    for (scores, mean, lower, upper) in rows {
        let found = Clustered::new(scores.iter().map(|score| vec![*score]))
            .mean()
            .unwrap();
        close(found.estimate, mean, "mean");
        within(found.interval.unwrap(), [lower, upper], "mean");
    }
}

#[test]
fn paired_comparisons_are_those_of_scipy() {
    let rows: [Paired; 4] = [
        (
            &[
                0.62, 0.35, 0.79, 0.62, 0.62, 0.52, 0.47, 0.06, 0.95, 0.32, 0.16, 0.45, 0.89, 0.4,
                0.7,
            ],
            &[
                0.59, 0.54, 0.65, 1.0, 0.57, 0.76, 0.75, 0.13, 0.76, 0.56, 0.44, 0.75, 0.86, 0.44,
                0.74,
            ],
            0.032_616_571_692,
            0.010_312_649_042,
            0.205_687_350_958,
        ),
        (
            &[
                0.82, 0.19, 0.14, 0.24, 0.19, 0.93, 0.19, 0.31, 0.23, 0.96, 0.9,
            ],
            &[
                1.0, 0.39, 0.18, 0.58, 0.18, 0.82, 0.46, 0.06, 0.26, 1.0, 1.0,
            ],
            0.170_456_511_875,
            -0.038_371_559_934,
            0.189_280_650_843,
        ),
        (
            &[0.85, 0.59, 0.47, 0.49, 0.6],
            &[0.87, 0.68, 0.5, 0.45, 0.35],
            0.636_420_821_735,
            -0.193_079_224_938,
            0.133_079_224_938,
        ),
        (
            &[
                0.87, 0.51, 0.36, 0.57, 0.8, 0.0, 0.94, 0.53, 0.98, 0.12, 0.06, 0.84, 0.51, 0.74,
                0.91,
            ],
            &[
                1.0, 0.9, 0.54, 0.73, 0.75, 0.0, 1.0, 0.29, 0.53, 0.16, 0.62, 0.78, 0.51, 0.9, 1.0,
            ],
            0.307_507_743_24,
            -0.066_296_130_865,
            0.195_629_464_198,
        ),
    ];
    for (base, other, p, lower, upper) in rows {
        let pairs: Vec<Pair> = base
            .iter()
            .zip(other)
            .enumerate()
            .map(|(sample, (base, other))| Pair {
                cluster: sample.to_string(),
                base: vec![*base],
                other: vec![*other],
            })
            .collect();
        let found = Comparison::of(&pairs).unwrap();
        close(found.p.unwrap(), p, "p");
        within(found.interval.unwrap(), [lower, upper], "difference");
    }
}
