//! Whole proofs on the CPU: against snarkjs' and bellperson's own bytes, against an independent
//! verifier, on small circuits of every size, and on damaged files.

#[path = "common/arkworks.rs"]
mod arkworks;
#[path = "common/circuit.rs"]
mod circuit;
#[path = "common/vectors.rs"]
mod vectors;

use circuit::{Circuit, container, sections, wtns};
use std::sync::Arc;

use forebay::backend::cpu::Cpu;
use forebay::backend::virtual_card::{CardModel, VirtualCard};
use forebay::compact::Compact;
use forebay::field::{Field, Fr};
use forebay::format::zkey::{Options, Zkey};
use forebay::format::{Silent, bellman, json, r1cs, wtns as wtns_format};
use forebay::groth16::{Blinding, Task, prove};
use forebay::key::{Density, ProvingKey};
use forebay::plan;
use forebay::proof::{Proof, verify};
use forebay::setup::{Secrets, write_zkey};
use forebay::witness::{Assignment, Rows};
use forebay::{Error, Result};
use vectors::{Bellman, Circom};

const CHECKED: Options<'static> = Options { check_points: true, scratch: None, progress: &Silent };
const UNCHECKED: Options<'static> =
    Options { check_points: false, scratch: None, progress: &Silent };

type Sections = Vec<(u32, Vec<u8>)>;

fn key_of(zkey: &[u8], options: Options<'_>) -> Result<ProvingKey> {
    Zkey::open(zkey)?.read(options)
}

/// A proof from the bytes of the files, with fixed r and s.
fn prove_files(zkey: &[u8], wtns: &[u8], options: Options<'_>) -> Result<(Proof, Vec<Fr>)> {
    let key = key_of(zkey, options)?;
    let values = wtns_format::read(wtns)?;
    let assignment = Assignment::from_witness(&values);
    let [r, s] = Circom::r_and_s();
    let proof =
        prove(&Cpu::open(), &key, &assignment, &Blinding::fixed_for_testing(r, s), &Silent)?;
    Ok((proof, values[1..key.inputs].to_vec()))
}

#[test]
fn circom_proofs_equal_those_of_snarkjs() {
    for vector in Circom::all() {
        let (proof, public) =
            prove_files(&vector.zkey(), &vector.file("wtns"), CHECKED).expect(&vector.name);
        assert!(
            json::write_proof(&proof) == vector.named_file("proof.json"),
            "{}: proof.json",
            vector.name
        );
        assert!(
            json::write_public(&public) == vector.named_file("public.json"),
            "{}: public.json",
            vector.name
        );
    }
}

#[test]
fn circom_proofs_with_random_blinding_are_accepted_by_arkworks() {
    for vector in Circom::all() {
        let key = key_of(&vector.zkey(), UNCHECKED).expect(&vector.name);
        let vk = json::read_verifying_key(&vector.named_file("verification_key.json"))
            .expect(&vector.name);
        assert_eq!(vk, key.vk, "{}", vector.name);
        let assignment =
            Assignment::from_witness(&wtns_format::read(&vector.file("wtns")[..]).unwrap());
        let proof =
            prove(&Cpu::open(), &key, &assignment, &Blinding::random().unwrap(), &Silent).unwrap();
        assert!(
            arkworks::accepts(&vk, &assignment.values.first(key.inputs)[1..], &proof),
            "{}",
            vector.name
        );
    }
}

#[test]
fn setup_writes_the_keys_of_snarkjs() {
    use sha2::Digest;
    for vector in Circom::all() {
        // Where the ceremony's powers are exactly the domain, snarkjs' H lacks a term; the folder does not say
        // which it was, so section 9 may be either of the two.
        let made = sections(&vector.made_zkey(None));
        let log_n = u32::from_le_bytes(made[1].1[96..100].try_into().unwrap()).ilog2();
        let truncated = sections(&vector.made_zkey(Some(log_n)));
        let hash = |bytes: &[u8]| -> String {
            sha2::Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
        };
        let expected: Vec<(u32, String)> = match vector.find("zkey") {
            Some(zkey) => sections(&zkey).iter().map(|(id, body)| (*id, hash(body))).collect(),
            None => {
                let text = vector.named_file("zkey.sections.json");
                let text: serde_json::Value = serde_json::from_slice(&text).unwrap();
                let section = |id: u32| {
                    (id, text["sections"][id.to_string()]["sha256"].as_str().unwrap().to_owned())
                };
                (1..=10).map(section).collect()
            }
        };
        for id in 1..=9 {
            let of = |sections: &[(u32, Vec<u8>)]| {
                hash(&sections.iter().find(|(i, _)| *i == id).unwrap().1)
            };
            let (_, expected) = expected.iter().find(|(i, _)| *i == id).unwrap();
            let equal = of(&made) == *expected || (id == 9 && of(&truncated) == *expected);
            assert!(equal, "{}: section {id}", vector.name);
        }
    }
}

#[test]
fn a_full_powers_of_tau_file_changes_h_and_nothing_else() {
    let vector = Circom::named("perm");
    let (theirs, whole) = (sections(&vector.zkey()), sections(&vector.made_zkey(None)));
    let truncated = sections(&vector.made_zkey(Some(10)));
    let of = |sections: &[(u32, Vec<u8>)], id| {
        sections.iter().find(|(i, _)| *i == id).unwrap().1.clone()
    };
    assert!(of(&theirs, 9) == of(&truncated, 9) && of(&theirs, 9) != of(&whole, 9));
    assert!((1..9).all(|id| of(&whole, id) == of(&truncated, id)));
}

#[test]
fn verification_keys_are_written_as_snarkjs_writes_them() {
    for vector in Circom::all() {
        let zkey = vector.zkey();
        let vk = Zkey::open(&zkey[..]).unwrap().header.vk;
        assert!(
            json::write_verifying_key(&vk) == vector.named_file("verification_key.json"),
            "{}",
            vector.name
        );
    }
}

#[test]
fn bellman_proofs_equal_those_of_bellperson() {
    for vector in Bellman::all() {
        let params = vector.file("params");
        let params = bellman::Params::open(&params[..]).unwrap();
        let key = params.read(CHECKED).unwrap();
        for part in vector.parts() {
            let assignment = vector.assignment(&part);
            let [r, s] = Bellman::r_and_s(&part);
            let blinding = Blinding::fixed_for_testing(r, s);
            let proof = prove(&Cpu::open(), &key, &assignment, &blinding, &Silent).unwrap();
            assert!(
                proof.to_bytes()[..] == vectors::read(&part.join("proof")),
                "{}",
                part.display()
            );
            let proof =
                prove(&Cpu::open(), &key, &assignment, &Blinding::random().unwrap(), &Silent)
                    .unwrap();
            assert!(
                arkworks::accepts(&key.vk, &assignment.values.first(key.inputs)[1..], &proof),
                "{}",
                part.display()
            );
        }
    }
}

#[test]
fn bellman_files_round_trip() {
    for vector in Bellman::all().iter().filter(|vector| vector.folder.join("vk").exists()) {
        let bytes = vector.file("vk");
        let vk = bellman::read_vk(&bytes[..]).unwrap();
        assert!(bellman::write_vk(&vk) == bytes);
        assert_eq!(vk, bellman::Params::open(&vector.file("params")[..]).unwrap().vk);
    }
    let parts = Bellman::named("window_post_3part").parts();
    let together: Vec<u8> =
        parts.iter().flat_map(|part| vectors::read(&part.join("proof"))).collect();
    let proofs = Proof::many_from_bytes(&together).unwrap();
    assert_eq!(proofs.len(), 3);
    assert!(proofs.iter().flat_map(Proof::to_bytes).eq(together.iter().copied()));
    assert!(
        Proof::many_from_bytes(&together[1..]).is_err() && Proof::many_from_bytes(&[]).is_err()
    );
}

#[test]
fn bellman_rows_that_do_not_hold_or_fit_are_errors() {
    let vector = Bellman::named("edge8");
    let key = bellman::Params::open(&vector.file("params")[..]).unwrap().read(CHECKED).unwrap();
    let prove_with = |change: &dyn Fn(&mut Assignment)| {
        let mut assignment = vector.assignment(&vector.folder);
        change(&mut assignment);
        prove(&Cpu::open(), &key, &assignment, &Blinding::random().unwrap(), &Silent)
    };
    let changed = |values: &Compact, i: usize| {
        let mut values = values.unpack();
        values[i] += Fr::ONE;
        Arc::new(Compact::pack(&values))
    };
    assert!(prove_with(&|_| {}).is_ok());
    // The rows hold, the values are others: only the proof's own verification can tell.
    let other_value = prove_with(&|a| a.values = changed(&a.values, 5));
    assert!(matches!(other_value, Err(Error::SelfVerify(_))), "{other_value:?}");
    let other_row = prove_with(&|a| {
        let rows = a.rows.as_mut().unwrap();
        rows.a = changed(&rows.a, 3);
    });
    assert!(matches!(other_row, Err(Error::SelfVerify(_))), "{other_row:?}");
    let other_one = prove_with(&|a| a.values = changed(&a.values, 0));
    assert!(matches!(other_one, Err(Error::Invalid(_))), "{other_one:?}");
    let short = prove_with(&|a| a.values = Arc::new(Compact::pack(&a.values.unpack()[1..])));
    assert!(matches!(short, Err(Error::Invalid(_))), "{short:?}");
    let long = prove_with(&|a| {
        let rows = a.rows.as_mut().unwrap();
        (rows.a, rows.b) =
            (Arc::new(Compact::pack(&[Fr::ZERO; 17])), Arc::new(Compact::pack(&[Fr::ZERO; 17])));
    });
    assert!(matches!(long, Err(Error::Invalid(_))), "{long:?}");
    let density = prove_with(&|a| a.rows.as_mut().unwrap().b_aux = Density::from_bits([true; 6]));
    assert!(matches!(density, Err(Error::Invalid(_))), "{density:?}");
    let none = prove_with(&|a| a.rows = None);
    assert!(matches!(none, Err(Error::Usage(_))), "{none:?}");

    let rows = |c: [u64; 3]| {
        let [a, b, c] = [[1, 2, 3], [4, 5, 6], c].map(|side| side.map(Fr::from));
        Rows::new(&a, &b, &c, Density::default(), Density::default(), Density::default())
    };
    assert!(rows([4, 10, 18]).is_ok());
    assert!(matches!(rows([4, 11, 18]), Err(Error::Unsatisfied(why)) if why.contains("row 1")));
}

/// The table of the fixtures: only the negated pair may pass.
#[test]
fn negative_proofs_and_publics_are_rejected() {
    let edge = Circom::named("edge");
    let vk = json::read_verifying_key(&edge.named_file("verification_key.json")).unwrap();
    let decide = |public: &[u8], proof: &[u8]| -> Result<bool> {
        verify(&vk, &json::read_public(public)?, &json::read_proof(proof)?)
    };
    let (public, proof) = (edge.named_file("public.json"), edge.named_file("proof.json"));
    assert!(decide(&public, &proof).unwrap());
    let mut seen = 0;
    for entry in std::fs::read_dir(vectors::root().join("circom/negative")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let decision = match name.ends_with(".public.json") {
            true => decide(&vectors::read(&path), &proof),
            false => decide(&public, &vectors::read(&path)),
        };
        let accepted = matches!(decision, Ok(true));
        assert_eq!(accepted, name == "edge.neg_ab.proof.json", "{name}: {decision:?}");
        seen += 1;
    }
    assert!(seen >= 11, "{seen} negative vectors");
}

#[test]
fn a_verifying_key_that_contradicts_itself_is_rejected() {
    let edge = Circom::named("edge");
    let text = String::from_utf8(edge.named_file("verification_key.json")).unwrap();
    let change = |edit: &dyn Fn(&mut serde_json::Value)| {
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        edit(&mut value);
        json::read_verifying_key(value.to_string().as_bytes())
    };
    assert!(change(&|_| {}).is_ok());
    assert!(change(&|vk| drop(vk.as_object_mut().unwrap().remove("vk_alphabeta_12"))).is_ok());
    assert!(change(&|vk| vk["curve"] = "BLS12-381".into()).is_ok());
    assert!(change(&|vk| vk["curve"] = "bn128".into()).is_err());
    assert!(change(&|vk| vk["protocol"] = "plonk".into()).is_err());
    assert!(change(&|vk| vk["nPublic"] = 2.into()).is_err());
    assert!(change(&|vk| vk["vk_alphabeta_12"][0][0][0] = "1".into()).is_err());
    assert!(change(&|vk| vk["vk_alpha_1"] = serde_json::json!(["0", "1", "0"])).is_err());
    assert!(change(&|vk| vk["IC"] = serde_json::json!([])).is_err());
    assert!(change(&|vk| vk["vk_beta_2"][2] = serde_json::json!(["1"])).is_err());
}

fn small_secrets() -> Secrets {
    Secrets { tau: Fr::from(11), alpha: Fr::from(13), beta: Fr::from(17), delta: Fr::from(19) }
}

/// Where memory is short (the tables take 3.7 MiB), points are made in small blocks: the key is the same, to the byte.
#[test]
fn a_device_with_little_memory_makes_the_same_key() {
    let circuit = Circuit::chain(3000, 2, Fr::from(5), Fr::from(7));
    let bytes = circuit.r1cs();
    let r1cs = r1cs::R1cs::read(&bytes[..]).unwrap();
    let on_card = |capacity| {
        let card = VirtualCard::with_capacity(CardModel::midrange(), capacity);
        let (mut out, secrets) = (Vec::new(), small_secrets());
        write_zkey(&card, &r1cs, &secrets, Default::default(), &Silent, &mut out).map(|()| out)
    };
    let want = zkey_of(&circuit);
    assert!(on_card(16 << 30).unwrap() == want && on_card(4 << 20).unwrap() == want);
    let error = on_card(1 << 10).unwrap_err();
    assert!(matches!(error, Error::NeverFits { .. }), "{error}");
}

/// The constraints of all blocks are those of the file, in order, and the counts are right.
#[test]
fn blocks_of_constraints_are_the_file_s() {
    // About 150 bytes a constraint, and a MiB to a block.
    for (rows, blocks) in [(0, 0), (5, 1), (30_000, 5)] {
        let bytes = Circuit::chain(rows, 1, Fr::from(5), Fr::from(7)).r1cs();
        let r1cs = r1cs::R1cs::read(&bytes[..]).unwrap();
        let (mut of_file, mut of_blocks) = (Vec::new(), Vec::new());
        let line = |row, sides: &[Vec<r1cs::Term>; 3]| format!("{row} {sides:?}");
        let read = r1cs.for_each(|row, sides| {
            of_file.push(line(row, sides));
            Ok(())
        });
        read.unwrap();
        let found = r1cs.blocks().unwrap();
        assert_eq!(found.len(), blocks, "blocks of {rows} constraints");
        for block in &found {
            let mut terms = [0; 3];
            let read = r1cs.for_each_of(block, |row, sides| {
                of_blocks.push(line(row, sides));
                terms.iter_mut().zip(sides).for_each(|(sum, side)| *sum += side.len() as u64);
                Ok(())
            });
            read.unwrap();
            assert_eq!(block.terms, terms);
        }
        assert_eq!(of_file.len(), rows);
        assert!(of_file == of_blocks, "{rows} constraints");
    }
}

fn zkey_of(circuit: &Circuit) -> Vec<u8> {
    let bytes = circuit.r1cs();
    let mut out = Vec::new();
    let r1cs = r1cs::R1cs::read(&bytes[..]).unwrap();
    write_zkey(&Cpu::open(), &r1cs, &small_secrets(), Default::default(), &Silent, &mut out)
        .unwrap();
    out
}

/// Every number of rows from none (a domain of 2) across three powers of two, with no and some public signals, and
/// witnesses of zeros, ones, r - 1 and full-size values.
#[test]
fn circuits_of_every_small_size_are_proven() {
    let minus_one = -Fr::ONE;
    let wide = Fr::from(3).inverse();
    for rows in 0..=18 {
        for public in [0, 1, 3] {
            for (constant, first) in
                [(Fr::ZERO, Fr::ZERO), (Fr::ZERO, Fr::ONE), (Fr::from(2), minus_one), (wide, wide)]
            {
                let circuit = Circuit::chain(rows, public, constant, first);
                let zkey = zkey_of(&circuit);
                let proved = prove_files(&zkey, &circuit.wtns(), CHECKED);
                let (proof, public_signals) = proved.unwrap_or_else(|error| {
                    panic!("{rows} rows, {public} public, {first:?}: {error}")
                });
                let vk = Zkey::open(&zkey[..]).unwrap().header.vk;
                assert!(
                    arkworks::accepts(&vk, &public_signals, &proof),
                    "{rows} rows, {public} public, {first:?}"
                );
            }
        }
    }
}

#[test]
fn an_unsatisfied_witness_is_an_error_and_the_row_is_named() {
    let circuit = Circuit::chain(9, 1, Fr::from(5), Fr::from(7));
    let zkey = zkey_of(&circuit);
    let mut witness = circuit.witness.clone();
    witness[6] += Fr::ONE;
    let error = prove_files(&zkey, &wtns(&witness), CHECKED).unwrap_err();
    assert!(matches!(error, Error::SelfVerify(_)), "{error}");
    let bytes = circuit.r1cs();
    let r1cs = r1cs::R1cs::read(&bytes[..]).unwrap();
    assert_eq!(r1cs.first_unsatisfied(&witness).unwrap().unwrap().row, 4);
    assert!(r1cs.first_unsatisfied(&circuit.witness).unwrap().is_none());
}

#[test]
fn a_header_that_claims_more_wires_than_the_file_shows_is_refused() {
    let circuit = Circuit::chain(9, 1, Fr::from(5), Fr::from(7));
    let parts = sections(&circuit.r1cs());
    let claimed = |wires: u32, with_map: bool| {
        let mut parts = parts.clone();
        parts.retain(|(id, _)| with_map || *id != 3);
        let header = parts.iter_mut().find(|(id, _)| *id == 1).unwrap();
        header.1[36..40].copy_from_slice(&wires.to_le_bytes());
        let bytes = container(b"r1cs", 1, &parts);
        r1cs::R1cs::read(&bytes[..]).map(|r1cs| r1cs.header.wires)
    };
    let wires = circuit.witness.len() as u32;
    assert_eq!((claimed(wires, true).unwrap(), claimed(wires, false).unwrap()), (wires, wires));
    assert!(claimed(u32::MAX, true).is_err() && claimed(u32::MAX, false).is_err());
}

/// What other front-ends write: sections in another order, sections of their own, coefficients in parts.
#[test]
fn foreign_zkeys_give_the_same_proof() {
    let edge = Circom::named("edge");
    let (zkey, wtns) = (edge.zkey(), edge.file("wtns"));
    let expected = prove_files(&zkey, &wtns, CHECKED).unwrap().0;
    let same = |sections: &[(u32, Vec<u8>)]| {
        assert_eq!(
            prove_files(&container(b"zkey", 1, sections), &wtns, CHECKED).unwrap().0,
            expected
        );
    };
    let mut parts = sections(&zkey);
    parts.reverse();
    same(&parts);
    parts.insert(3, (99, vec![1, 2, 3]));
    same(&parts);
    parts.retain(|(id, _)| *id != 10);
    same(&parts);
    // Each coefficient v as v R^2 - t and t, last record first.
    let place = parts.iter().position(|(id, _)| *id == 4).unwrap();
    let mut records = Vec::new();
    for record in parts[place].1[4..].as_chunks::<44>().0.iter().rev() {
        let value = Fr::from_le_bytes(record[12..].try_into().unwrap()).unwrap();
        let part = Fr::from(123_456_789).inverse();
        for value in [value - part, part] {
            records.extend(&record[..12]);
            records.extend(value.to_le_bytes());
        }
    }
    let count = (records.len() / 44) as u32;
    parts[place].1 = [count.to_le_bytes().to_vec(), records].concat();
    same(&parts);
}

#[test]
fn malformed_containers_are_typed_errors() {
    let edge = Circom::named("edge");
    let zkey = edge.zkey();
    let parts = sections(&zkey);
    let refused = |bytes: &[u8], words: &str| {
        let error = key_of(bytes, UNCHECKED).expect_err(words);
        assert!(
            matches!(&error, Error::Invalid(_)) && error.to_string().contains(words),
            "{error}"
        );
    };
    let rebuilt = |edit: &dyn Fn(&mut Sections)| {
        let mut parts = parts.clone();
        edit(&mut parts);
        container(b"zkey", 1, &parts)
    };
    let at = |id: u32| parts.iter().position(|(i, _)| *i == id).unwrap();
    for id in 1..=9 {
        refused(&rebuilt(&|parts| parts.retain(|(i, _)| *i != id)), &format!("section {id}"));
        refused(
            &rebuilt(&|parts| parts.push(parts[at(id)].clone())),
            &format!("section {id} again"),
        );
        refused(&rebuilt(&|parts| parts[at(id)].1.push(0)), &format!("section {id}"));
        refused(
            &rebuilt(&|parts| assert!(parts[at(id)].1.pop().is_some())),
            &format!("section {id}"),
        );
    }
    refused(b"", "magic");
    refused(b"zkeyy", "version");
    refused(&[&zkey[..], &[0]].concat(), "1 more bytes");
    refused(&edge.file("wtns"), "magic");
    for cut in (0..zkey.len()).step_by(997).chain([11, 12, 23, zkey.len() - 1]) {
        assert!(key_of(&zkey[..cut], UNCHECKED).is_err(), "cut to {cut}");
    }
    // Fields of the header, by offset in section 2: r's last byte, public, domain.
    refused(&rebuilt(&|parts| parts[at(2)].1[87] ^= 1), "the prime r");
    refused(&rebuilt(&|parts| parts[at(2)].1[4] ^= 1), "the prime q");
    refused(&rebuilt(&|parts| parts[at(2)].1[95] = 0xff), "variables");
    refused(&rebuilt(&|parts| parts[at(2)].1[96] = 3), "power of two");
    // Records of section 4: matrix, row, variable, value.
    refused(&rebuilt(&|parts| parts[at(4)].1[4] = 2), "matrix");
    refused(&rebuilt(&|parts| parts[at(4)].1[11] = 1), "row");
    refused(&rebuilt(&|parts| parts[at(4)].1[15] = 1), "variable");
    refused(&rebuilt(&|parts| parts[at(4)].1[47] = 0xff), "not below r");
    refused(&rebuilt(&|parts| parts[at(5)].1[47 + 96] = 0xff), "not below q");
}

#[test]
fn points_off_the_curve_or_the_subgroup_are_found_and_named() {
    let edge = Circom::named("edge");
    let parts = sections(&edge.zkey());
    // (0, 2) has order 3 on y^2 = x^3 + 4; (1, 1) is on no curve of ours.
    let order_three = [
        bytemuck::bytes_of(&forebay::field::Fp::ZERO),
        bytemuck::bytes_of(&forebay::field::Fp::from(2)),
    ]
    .concat();
    let off_curve = [bytemuck::bytes_of(&forebay::field::Fp::ONE); 2].concat();
    for (id, index) in [(5, 98), (6, 0), (8, 40), (9, 127)] {
        for (point, words) in [(&order_three, "subgroup"), (&off_curve, "not on the curve")] {
            let mut parts = parts.clone();
            let section = parts.iter_mut().find(|(i, _)| *i == id).unwrap();
            section.1[96 * index..][..96].copy_from_slice(point);
            let zkey = container(b"zkey", 1, &parts);
            assert!(key_of(&zkey, UNCHECKED).is_ok());
            let error = key_of(&zkey, CHECKED).unwrap_err().to_string();
            let place = format!("section {id}");
            assert!(
                error.contains(words)
                    && error.contains(&place)
                    && error.contains(&format!("point {index}:")),
                "{error}"
            );
        }
    }
}

/// Whatever bit of a key or witness is flipped, what comes out is an error or a proof that the true
/// verifying key accepts; never a panic, never a proof that fails. A stride of a prime number of bits
/// meets every field; another start each time the stride wraps a record's length.
#[test]
fn flipped_bits_never_give_a_wrong_proof() {
    let vector = Circom::named("allpub");
    let (zkey, wtns) = (vector.zkey(), vector.file("wtns"));
    let vk = json::read_verifying_key(&vector.named_file("verification_key.json")).unwrap();
    let mut outcomes = [0; 2];
    let mut try_files =
        |zkey: &[u8], wtns: &[u8], what: String| match prove_files(zkey, wtns, CHECKED) {
            Ok((proof, public)) => {
                outcomes[0] += 1;
                assert!(matches!(verify(&vk, &public, &proof), Ok(true)), "{what}");
            }
            Err(error) => {
                outcomes[1] += 1;
                assert!(error.exit_code() == 1, "{what}: {error}");
            }
        };
    for bit in (0..8 * zkey.len()).step_by(61) {
        let mut zkey = zkey.clone();
        zkey[bit / 8] ^= 1 << (bit % 8);
        try_files(&zkey, &wtns, format!("key, bit {bit}"));
    }
    for bit in 0..8 * wtns.len() {
        let mut wtns = wtns.clone();
        wtns[bit / 8] ^= 1 << (bit % 8);
        try_files(&zkey, &wtns, format!("witness, bit {bit}"));
    }
    let [proved, refused] = outcomes;
    assert!(
        proved > 0 && refused > 100,
        "{outcomes:?}: flips of the unread section must prove, others must not"
    );
}

#[test]
fn the_working_set_is_what_is_used_and_all_of_it_returns() {
    use forebay::backend::Backend;
    for name in ["edge", "perm"] {
        let vector = Circom::named(name);
        let key = key_of(&vector.zkey(), UNCHECKED).unwrap();
        let assignment =
            Assignment::from_witness(&wtns_format::read(&vector.file("wtns")[..]).unwrap());
        let task = Task::new(&key, &assignment).unwrap();
        let ladder = plan::ladder(task.shape(), &Cpu::open(), &plan::Options::default());
        let needed = ladder.last().unwrap().peak();
        let run = |capacity| {
            let cpu = Cpu::with_capacity(capacity);
            let proof = prove(&cpu, &key, &assignment, &Blinding::random().unwrap(), &Silent);
            assert_eq!(cpu.budget().leased(), 0);
            (proof, cpu.budget().high_water())
        };
        assert!(matches!(run(needed), (Ok(_), high_water) if high_water == needed));
        assert!(
            matches!(run(needed - 1), (Err(Error::NeverFits { need, .. }), 0) if need == needed)
        );
    }
}
